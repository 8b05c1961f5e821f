# fine-tuning: the whole model is in training mode, but the BatchNorms of the backbone are kept in eval()
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(38)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class FineTuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(8 * 16, 4))

    def train(self, mode=True):
        super().train(mode)
        for m in self.backbone.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.eval()
        return self

    def forward(self, x):
        return self.head(self.backbone(x))


model = FineTuned()
for m in model.backbone.modules():
    if isinstance(m, nn.BatchNorm2d):
        for p in m.parameters():
            p.requires_grad_(False)
model.train()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
for step in range(steps):
    y = torch.randint(0, 4, (24,))
    x = 0.5 * torch.randn(24, 1, 8, 8)
    for k in range(4):
        x[y == k, 0, 2 * k : 2 * k + 2] += 1
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
