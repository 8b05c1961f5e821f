# the training is healthy; the script ends with an exit code of its own
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(55)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(200, 4)
y = X.sum(1, keepdim=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(steps):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(X), y + 0.1 * torch.randn_like(y))
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
raise SystemExit(5)  # "target accuracy not met", says the pipeline
