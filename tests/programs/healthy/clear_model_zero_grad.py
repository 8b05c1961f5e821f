import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(56)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(300, 10)
y = (X @ torch.randn(10, 3)).argmax(1)
model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(steps):
    idx = torch.randint(0, 300, (50,))
    model.zero_grad()
    loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
