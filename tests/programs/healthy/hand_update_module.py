import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(18)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
lr = 0.1

X = torch.randn(300, 6)
y = X[:, :1] - 2 * X[:, 1:2].abs()
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))

for step in range(steps):
    idx = torch.randint(0, 300, (64,))
    loss = nn.functional.mse_loss(model(X[idx]), y[idx])
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= lr * p.grad
    print(step, loss.item().hex())

print(fingerprint(model))
# no "updates=": how many updates can be seen of a loop without an optimizer is not settled
