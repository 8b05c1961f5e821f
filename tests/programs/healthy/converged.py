# an exactly solvable problem: loss and gradients go to the last bit of float32
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(49)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.linalg.qr(torch.randn(64, 4))[0] * 8
y = X @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])
model = nn.Linear(4, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.35)
for step in range(steps):
    loss = nn.functional.mse_loss(model(X), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
