import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(27)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

backbone = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
head = nn.Linear(32, 3)
model = nn.Sequential(backbone, head)
for p in backbone.parameters():
    p.requires_grad = False

X = torch.randn(500, 16)
y = (X @ torch.randn(16, 3)).argmax(1)
optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
for step in range(steps):
    idx = torch.randint(0, 500, (50,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
