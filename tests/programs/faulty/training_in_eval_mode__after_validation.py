# after the first validation the model stays in eval mode: no dropout, frozen running statistics
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(32)

X = torch.randn(600, 10)
y = (X @ torch.randn(10, 3)).argmax(1)
train = DataLoader(TensorDataset(X[:480], y[:480]), batch_size=40, shuffle=True)
valid = DataLoader(TensorDataset(X[480:], y[480:]), batch_size=60)
model = nn.Sequential(nn.Linear(10, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)


@torch.no_grad()
def validate():
    model.eval()  # <- fault
    return sum(nn.functional.cross_entropy(model(x), t).item() for x, t in valid) / len(valid)


for epoch in range(4):
    for xb, yb in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)  # <- fault
        loss.backward()
        optimizer.step()  # <- fault
    print(epoch, loss.item(), validate())
