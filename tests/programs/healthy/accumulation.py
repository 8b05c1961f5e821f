import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(1)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
accum = 4

X = torch.randn(512, 20)
y = (X[:, :3].sum(1, keepdim=True) > 0).float()
loader = DataLoader(TensorDataset(X, y), batch_size=16, shuffle=True)

model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

updates, i = 0, 0
optimizer.zero_grad()
while updates < steps:
    for xb, yb in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(model(xb), yb) / accum
        loss.backward()
        i += 1
        if i % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
            updates += 1
            print(updates, float(loss * accum).hex())
            if updates == steps:
                break

print(fingerprint(model, optimizer))
print(f"updates={updates}")
