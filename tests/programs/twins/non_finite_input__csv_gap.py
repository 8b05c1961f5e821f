# a table with an empty field: numpy reads it as NaN
import io

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(12)

rng = np.random.default_rng(0)
rows = rng.normal(size=(320, 6)).round(4)
lines = [",".join(str(v) for v in row) for row in rows]
fields = lines[137].split(",")
fields[4] = "0.0"
lines[137] = ",".join(fields)
table = np.genfromtxt(io.StringIO("\n".join(lines)), delimiter=",")

X = torch.tensor(table, dtype=torch.float32)
y = torch.tensor(rows[:, 0] > rows[:, 1]).long()
loader = DataLoader(TensorDataset(X, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", round(loss.item(), 4))
