# binary cross-entropy by hand; one sample with a large feature saturates the sigmoid
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(3)

X = torch.randn(640, 10)
y = (X[:, :2].sum(1) > 0).float()
X[11 * 32 + 4] *= 1e4  # entered in millimetres
loader = DataLoader(TensorDataset(X, y), batch_size=32)
model = nn.Sequential(nn.Linear(10, 1), nn.Sigmoid())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for epoch in range(2):
    for xb, yb in loader:
        p = model(xb).squeeze(1)
        loss = -(yb * torch.log(p) + (1 - yb) * torch.log(1 - p)).mean()  # <- fault
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, f"{loss.item():.4f}")
