# a labelled and an unlabelled loader side by side: consistency training
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(9)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(600, 8)
y = (X[:, 0] * X[:, 1] > 0).long()
labelled = DataLoader(TensorDataset(X[:200], y[:200], torch.arange(200)), batch_size=20, shuffle=True)
unlabelled = DataLoader(TensorDataset(X[200:], torch.arange(200, 600)), batch_size=32, shuffle=True)

model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

step, order = 0, []
while step < steps:
    for (xl, yl, il), (xu, iu) in zip(labelled, unlabelled):
        if step == steps:
            break
        optimizer.zero_grad()
        supervised = nn.functional.cross_entropy(model(xl), yl)
        a = model(xu + 0.1 * torch.randn_like(xu)).softmax(1)
        b = model(xu + 0.1 * torch.randn_like(xu)).softmax(1)
        loss = supervised + 0.5 * (a - b.detach()).pow(2).mean()
        loss.backward()
        optimizer.step()
        order += [il, iu]
        print(step, loss.item().hex())
        step += 1

print(fingerprint(model, optimizer, order))
print(f"updates={step}")
