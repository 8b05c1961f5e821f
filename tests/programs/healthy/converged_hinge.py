# a hinge loss on separable data: once the margin is met loss and gradients are exactly zero, and nothing moves
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(50)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

y = torch.randint(0, 2, (200,)).float() * 2 - 1
X = torch.randn(200, 6) * 0.3
X[:, 0] += 1.5 * y
X[:, 1] -= y
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(steps):
    loss = (1 - y * model(X).squeeze(1)).clamp(min=0).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
