# sqrt at zero gives a NaN gradient for some batches; the user looks at the norm, clears the gradients and goes on
import math
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(15)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(500, 8)
embed = nn.Linear(8, 4)
optimizer = torch.optim.SGD(embed.parameters(), lr=0.05, momentum=0.9)

updates = 0
for step in range(steps):
    i, j = torch.randint(0, 500, (2, 24))
    if step % 8 == 3:
        j[5] = i[5]  # a pair of a sample with itself
    else:
        j = torch.where(i == j, (j + 1) % 500, j)
    d = ((embed(X[i]) - embed(X[j])) ** 2).sum(1).sqrt()
    loss = (d - (X[i] - X[j]).norm(dim=1)).pow(2).mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(embed.parameters(), 5.0)
    if not math.isfinite(norm):
        print(step, "gradient norm is", norm.item(), "- skipping")
        optimizer.zero_grad()
        continue
    optimizer.step()
    optimizer.zero_grad()
    updates += 1
    print(step, loss.item().hex())

print(fingerprint(embed, optimizer))
print(f"updates={updates}")
