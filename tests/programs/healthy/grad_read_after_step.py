import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(16)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(256, 10)
y = (X @ torch.randn(10, 3)).argmax(1)
model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

history = []
for step in range(steps):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(X), y)
    loss.backward()
    optimizer.step()
    norms = [p.grad.norm().item() for p in model.parameters()]
    history.append(norms)
    print(step, loss.item().hex(), *(n.hex() for n in norms))

print(fingerprint(model, optimizer, history))
print(f"updates={steps}")
