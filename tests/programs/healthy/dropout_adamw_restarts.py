import sys

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(52)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(600, 16)
y = ((X[:, 0] > 0).long() + 2 * (X[:, 1] * X[:, 2] > 0).long())
model = nn.Sequential(
    nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.4), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.4), nn.Linear(64, 4)
)
decay = [p for p in model.parameters() if p.dim() > 1]
no_decay = [p for p in model.parameters() if p.dim() == 1]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}], lr=1e-2
)
scheduler = CosineAnnealingWarmRestarts(optimizer, T_0=10, T_mult=2)
for step in range(steps):
    idx = torch.randint(0, 600, (64,))
    loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(step, scheduler.get_last_lr()[0].hex(), loss.item().hex())

print(fingerprint(model, optimizer, scheduler))
print(f"updates={steps}")
