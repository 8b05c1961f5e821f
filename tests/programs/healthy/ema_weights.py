import copy
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(42)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(400, 10)
y = torch.sin(X[:, :1]) + X[:, 1:2] ** 2
model = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
ema = copy.deepcopy(model)
for p in ema.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


@torch.no_grad()
def update_ema(decay=0.95):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p, 1 - decay)
    for e, b in zip(ema.buffers(), model.buffers()):
        e.copy_(b)


for step in range(steps):
    idx = torch.randint(0, 400, (40,))
    loss = nn.functional.mse_loss(model(X[idx]), y[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    update_ema()
    print(step, loss.item().hex())
    if step % 10 == 9:
        ema.eval()
        with torch.no_grad():
            print("ema", nn.functional.mse_loss(ema(X), y).item().hex())

print(fingerprint(model, ema, optimizer))
print(f"updates={steps}")
