# batches of two, momentum, a lively learning rate: the loss goes up for stretches and comes down again
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(46)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(400, 8)
y = X @ torch.randn(8, 1) + 0.5 * torch.randn(400, 1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(steps):
    idx = torch.randint(0, 400, (2,))
    loss = nn.functional.mse_loss(model(X[idx]), y[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
