# a masked loss with, now and then, an empty mask: 0/0. The user knows and skips the batch.
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(14)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(800, 9)
y = torch.tanh(X[:, :3].sum(1))
model = nn.Sequential(nn.Linear(9, 40), nn.Tanh(), nn.Linear(40, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

updates = skipped = 0
for step in range(steps):
    idx = torch.randint(0, 800, (32,))
    mask = (torch.rand(32) < 0.5).float()
    if step % 9 == 4:
        mask.zero_()
    error = (model(X[idx]).squeeze(1) - y[idx]) ** 2
    loss = (error * mask).sum() / mask.sum()
    if not torch.isfinite(loss):
        skipped += 1
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    updates += 1
    print(step, loss.item().hex())

print("skipped", skipped)
print(fingerprint(model, optimizer))
print(f"updates={updates}")
