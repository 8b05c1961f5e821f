# the epoch is never finished: the loader is left with `break` and started anew
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(13)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
max_steps_per_epoch = 7

X = torch.randn(2000, 12)
y = (X[:, 0] > X[:, 1]).float()
loader = DataLoader(TensorDataset(X, y), batch_size=25, shuffle=True, drop_last=True)
model = nn.Linear(12, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)

done, order = 0, []
while done < steps:
    for i, (xb, yb) in enumerate(loader):
        if i >= max_steps_per_epoch or done >= steps:
            break
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(xb).squeeze(1), yb)
        loss.backward()
        optimizer.step()
        order.append(xb)
        done += 1
        print(done, loss.item().hex())

print(fingerprint(model, optimizer, order))
print(f"updates={done}")
