# the next batch is fetched before the current one is worked on
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(10)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class Prefetcher:
    def __init__(self, loader):
        self.loader = loader
        self.it = iter(loader)
        self.preload()

    def preload(self):
        try:
            self.batch = next(self.it)
        except StopIteration:
            self.batch = None

    def next(self):
        batch = self.batch
        self.preload()
        return batch


X = torch.randn(320, 10)
y = X.abs().sum(1, keepdim=True)
loader = DataLoader(TensorDataset(X, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

step, order = 0, []
while step < steps:
    prefetcher = Prefetcher(loader)
    batch = prefetcher.next()
    while batch is not None and step < steps:
        xb, yb = batch
        loss = nn.functional.smooth_l1_loss(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        order.append(yb)
        print(step, loss.item().hex())
        step += 1
        batch = prefetcher.next()

print(fingerprint(model, optimizer, order))
print(f"updates={step}")
