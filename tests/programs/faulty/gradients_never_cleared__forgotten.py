import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(16)

X = torch.randn(640, 10)
y = (X @ torch.randn(10, 3)).argmax(1)
loader = DataLoader(TensorDataset(X, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
criterion = nn.CrossEntropyLoss()
for epoch in range(2):
    for xb, yb in loader:
        loss = criterion(model(xb), yb)
        loss.backward()  # <- fault
        optimizer.step()  # <- fault
        print(epoch, loss.item())
