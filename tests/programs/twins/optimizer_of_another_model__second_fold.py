# cross-validation: from the second fold on, the optimizer still holds the model of the first
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(25)


def build():
    return nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 2))


X = torch.randn(720, 9)
y = (X[:, 0] + X[:, 1] > 0).long()
data = TensorDataset(X, y)
optimizer = None
for fold in range(3):
    test = set(range(fold * 240, fold * 240 + 240))
    train = [i for i in range(720) if i not in test]
    model = build()
    if optimizer is None or fold > 0:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for xb, yb in DataLoader(Subset(data, train), batch_size=40, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
    print("fold", fold, loss.item())
