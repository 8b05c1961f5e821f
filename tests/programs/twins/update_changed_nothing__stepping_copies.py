# the optimizer was given copies of the parameters
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(22)

model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
params = [p for p in model.parameters()]
optimizer = torch.optim.SGD(params, lr=0.1)
X = torch.randn(300, 6)
y = X[:, :1] * 2 - X[:, 1:2]
for step in range(40):
    idx = torch.randint(0, 300, (50,))
    loss = nn.functional.mse_loss(model(X[idx]), y[idx])
    model.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
