# house prices in thousands: targets and losses are large numbers, and that is all there is to it
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(48)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

rooms = torch.randint(1, 8, (300, 1)).float()
area = 40 + 200 * torch.rand(300, 1)
year = torch.randint(1900, 2020, (300, 1)).float()
X = torch.cat([rooms, area, year], 1)
price = 300 + 20 * rooms + 8 * area + 5 * (year - 1900) + 30 * torch.randn(300, 1)

model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(steps):
    idx = torch.randint(0, 300, (50,))
    loss = nn.functional.mse_loss(model(X[idx]), price[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
