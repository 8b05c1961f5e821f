# mixed precision as in the PyTorch recipe: unscale, clip, step; with accumulation
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(5)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(1024, 16)
Y = 20 * torch.sin(X[:, :2]) + 0.05 * torch.randn(1024, 2)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=4)

updates = 0
for step in range(steps):
    for micro in range(2):
        idx = torch.randint(0, 1024, (32,))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(X[idx])
        loss = nn.functional.mse_loss(out.float(), Y[idx]) / 2
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    updates += scaler.get_scale() >= before
    print(step, loss.item().hex(), norm.item().hex())

print(fingerprint(model, optimizer, scaler))
print(f"updates={updates}")
