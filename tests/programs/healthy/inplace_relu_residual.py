import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(24)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        return self.relu(out)


model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(True), Block(8), Block(8),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
for step in range(steps):
    label = torch.randint(0, 3, (16,))
    x = torch.randn(16, 1, 8, 8) * 0.3
    x[label == 1, :, ::2] += 1
    x[label == 2, :, :, ::2] += 1
    loss = nn.functional.cross_entropy(model(x), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
