# twelve layers without normalisation, a bold learning rate and momentum
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(37)

layers = [nn.Linear(10, 32), nn.ReLU()]
for _ in range(10):
    layers += [nn.Linear(32, 32), nn.ReLU()]
layers.append(nn.Linear(32, 1))
model = nn.Sequential(*layers)
for m in model:
    if isinstance(m, nn.Linear):
        nn.init.kaiming_normal_(m.weight)
        nn.init.zeros_(m.bias)
X = torch.randn(1280, 10)
y = 3 * torch.sin(X[:, :1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
for epoch in range(2):
    for xb, yb in DataLoader(TensorDataset(X, y), batch_size=32, shuffle=True):
        loss = nn.functional.mse_loss(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, loss.item())
