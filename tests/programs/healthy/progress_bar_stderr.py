import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(53)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


def progress(iterable, total):
    for i, item in enumerate(iterable):
        yield item
        done = 20 * (i + 1) // total
        sys.stderr.write(f"\rtraining |{'#' * done}{'.' * (20 - done)}| {i + 1}/{total}")
        sys.stderr.flush()
    sys.stderr.write("\n")


X = torch.randn(256, 6)
y = X.prod(1, keepdim=True).sign().clamp(min=0)
model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in progress(range(steps), steps):
    loss = nn.functional.binary_cross_entropy_with_logits(model(X), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
