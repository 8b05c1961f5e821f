import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(7)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

x = torch.linspace(-3, 3, 100).unsqueeze(1)
y = torch.sin(2 * x) + 0.1 * torch.randn(100, 1)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3, history_size=5)
calls = 0


def closure():
    global calls
    calls += 1
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y) + 1e-4 * sum(p.pow(2).sum() for p in model.parameters())
    loss.backward()
    return loss


for step in range(steps):
    loss = optimizer.step(closure)
    print(step, calls, float(loss).hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
