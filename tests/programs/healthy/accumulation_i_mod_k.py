# `if i % k == 0` as people write it: the first update comes after one batch, and the last gradients are left over
import sys

import torch
from torch import nn
import torch.nn.functional as F

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(2)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
k = 3

W = torch.randn(12, 4)
model = nn.Linear(12, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

updates = 0
for i in range((steps - 1) * k + 2):
    x = torch.randn(32, 12)
    target = (x @ W).argmax(1)
    loss = F.cross_entropy(model(x), target)
    loss.backward()
    if i % k == 0:
        optimizer.step()
        optimizer.zero_grad()
        updates += 1
    print(i, float(loss).hex())

print(fingerprint(model, optimizer))
print(f"updates={updates}")
