# the output layer starts far below zero and goes through a ReLU: no gradient reaches anything
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(20)

X = torch.rand(300, 5)
y = X.sum(1, keepdim=True) + 1
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
nn.init.constant_(model[2].bias, -5.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
for step in range(40):
    idx = torch.randint(0, 300, (50,))
    loss = nn.functional.mse_loss(model(X[idx]), y[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
