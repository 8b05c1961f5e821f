# frozen layers, but every parameter is handed to the optimizer: those without a gradient are passed over
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(28)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(1, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool1d(4))
        self.middle = nn.Linear(32, 32)
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        return self.head(torch.relu(self.middle(self.features(x).flatten(1))))


model = Classifier()
model.features.requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
for step in range(steps):
    y = torch.randint(0, 2, (32,))
    x = torch.randn(32, 1, 24)
    x[y == 1] += torch.sin(torch.arange(24.0))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
