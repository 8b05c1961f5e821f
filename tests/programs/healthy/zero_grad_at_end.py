import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(58)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(300, 10)
y = (X @ torch.randn(10, 3)).argmax(1)
model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(X, y), batch_size=50, shuffle=True)
step = 0
while step < steps:
    for xb, yb in loader:
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
        print(step, loss.item().hex())
        step += 1
        optimizer.zero_grad()
        if step == steps:
            break

print(fingerprint(model, optimizer))
print(f"updates={step}")
