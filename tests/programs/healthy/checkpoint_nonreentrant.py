import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(25)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(10, 32)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.1)) for _ in range(4)
        )
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return self.head(x)


X = torch.randn(400, 10)
y = (X @ torch.randn(10, 4)).argmax(1)
model = Deep()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(steps):
    idx = torch.randint(0, 400, (40,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
