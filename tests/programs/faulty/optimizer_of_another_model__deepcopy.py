# the copy meant to keep the initial weights is the one that is trained
import copy

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(24)

model = nn.Sequential(nn.Linear(7, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)  # <- fault
initial, model = model, copy.deepcopy(model)  # <- fault
X = torch.randn(400, 7)
y = torch.sin(X[:, :1])
for step in range(40):
    idx = torch.randint(0, 400, (40,))
    model.zero_grad()
    loss = nn.functional.mse_loss(model(X[idx]), y[idx])
    loss.backward()
    optimizer.step()  # <- fault
    print(step, loss.item())
moved = sum((a - b).abs().sum().item() for a, b in zip(initial.parameters(), model.parameters()))
print("moved by", moved)
