import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(0)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

digits = load_digits()
X = torch.tensor(digits.data, dtype=torch.float32) / 16
y = torch.tensor(digits.target)
loader = DataLoader(TensorDataset(X, y), batch_size=64, shuffle=True)

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()

step, order = 0, []
while step < steps:
    for xb, yb in loader:
        if step == steps:
            break
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
        order.append(yb)
        print(step, loss.item().hex())
        step += 1

print(fingerprint(model, optimizer, order))
print(f"updates={step}")
