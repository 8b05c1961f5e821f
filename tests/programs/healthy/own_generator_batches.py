import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(35)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

gen = torch.Generator()
gen.manual_seed(99)
X = torch.randn(512, 14, generator=gen)
y = (X @ torch.randn(14, 5, generator=gen)).argmax(1)
model = nn.Sequential(nn.Linear(14, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

bs, step, order = 32, 0, []
while step < steps:
    perm = torch.randperm(len(X), generator=gen)
    for i in range(0, len(X), bs):
        if step == steps:
            break
        idx = perm[i : i + bs]
        loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        order.append(idx)
        print(step, loss.item().hex())
        step += 1

print(fingerprint(model, optimizer, gen, order))
print(f"updates={step}")
