import sys

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(31)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
warmup = 8

X = torch.randn(400, 10)
y = (X @ torch.randn(10, 4)).argmax(1)
model = nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = LambdaLR(optimizer, lambda s: s / warmup if s < warmup else max(0.0, (steps - s) / (steps - warmup)))
for step in range(steps):
    idx = torch.randint(0, 400, (40,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
    loss.backward()
    optimizer.step()
    print(step, scheduler.get_last_lr()[0].hex(), loss.item().hex())
    scheduler.step()

print(fingerprint(model, optimizer, scheduler))
print(f"updates={steps}")
