# the target is a ratio, and for one shop both numbers are zero; with accumulation
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(14)

X = torch.randn(384, 8)
visits = torch.randint(5, 50, (384,)).float()
sales = (visits * torch.sigmoid(X[:, 0])).round()
visits[58] = sales[58] = 0
conversion = sales / visits.clamp(min=1)
loader = DataLoader(TensorDataset(X, conversion), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
criterion = nn.MSELoss()
for epoch in range(3):
    for i, (x, target) in enumerate(loader):
        loss = criterion(model(x).squeeze(1), target) / 2
        loss.backward()
        if (i + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, 2 * loss.item())
