# the model is built anew with the final width, after the optimizer was made
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(23)


def build(width):
    return nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 3))


model = build(48)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
X = torch.randn(640, 10)
y = (X @ torch.randn(10, 3)).argmax(1)
loader = DataLoader(TensorDataset(X, y), batch_size=32, shuffle=True)
for epoch in range(2):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
