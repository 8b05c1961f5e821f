import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(6)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

x = torch.linspace(-2, 2, 128).unsqueeze(1)
y = x**3 - x
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for step in range(steps):
    idx = torch.randperm(128)[:32]

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[idx]), y[idx])
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print(step, float(loss).hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
