import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(33)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

digits = load_digits()
data = TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))
loader = DataLoader(data, batch_size=48, shuffle=True)
model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

step = 0
while step < steps:
    for images, labels in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(images)
            loss = nn.functional.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()
        print(step, loss.item().hex())
        step += 1
        if step >= steps:
            break

print(fingerprint(model, optimizer))
print(f"updates={step}")
