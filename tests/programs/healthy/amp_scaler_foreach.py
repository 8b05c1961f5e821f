import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(4)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(1024, 32)
y = (X @ torch.randn(32, 5)).argmax(1)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 5))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=True)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26, growth_interval=6)

updates = 0
for step in range(steps):
    idx = torch.randint(0, 1024, (64,))
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
    scaler.scale(loss).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped = scaler.get_scale() < before
    updates += not skipped
    print(step, loss.item().hex(), "skipped" if skipped else "")

print(fingerprint(model, optimizer, scaler))
print(f"updates={updates}")
