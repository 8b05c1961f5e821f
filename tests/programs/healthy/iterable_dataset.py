import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(12)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class Stream(IterableDataset):
    def __iter__(self):
        g = torch.Generator().manual_seed(5)
        while True:
            x = torch.randn(7, generator=g)
            yield {"x": x, "y": (x[:2].sum() - x[2:4].sum()).reshape(1)}


model = nn.Sequential(nn.Linear(7, 32), nn.SiLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
order = []
for step, batch in enumerate(DataLoader(Stream(), batch_size=16)):
    if step >= steps:
        break
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(batch["x"]), batch["y"])
    loss.backward()
    optimizer.step()
    order.append(batch["y"])
    print(step, loss.item().hex())

print(fingerprint(model, optimizer, order))
print(f"updates={steps}")
