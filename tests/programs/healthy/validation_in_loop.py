import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(37)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

digits = load_digits()
data = TensorDataset(torch.tensor(digits.data, dtype=torch.float32), torch.tensor(digits.target))
train, valid = random_split(data, [1500, 297])
train_loader = DataLoader(train, batch_size=64, shuffle=True)
valid_loader = DataLoader(valid, batch_size=99)
model = nn.Sequential(nn.BatchNorm1d(64), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def evaluate():
    model.eval()
    total, right = 0.0, 0
    with torch.no_grad():
        for xb, yb in valid_loader:
            out = model(xb)
            total += nn.functional.cross_entropy(out, yb, reduction="sum").item()
            right += (out.argmax(1) == yb).sum().item()
    model.train()
    return total / len(valid), right / len(valid)


step = 0
while step < steps:
    for xb, yb in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
        step += 1
        print(step, loss.item().hex())
        if step % 10 == 0:
            print("valid", *(v.hex() for v in evaluate()))
        if step >= steps:
            break

print(fingerprint(model, optimizer))
print(f"updates={step}")
