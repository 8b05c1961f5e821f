import sys
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(34)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


@dataclass
class Output:
    logits: torch.Tensor
    hidden: tuple
    loss: Optional[torch.Tensor] = None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList([nn.Linear(10, 24), nn.Linear(24, 24)])
        self.head = nn.Linear(24, 3)

    def forward(self, x, labels=None):
        hidden = []
        for layer in self.body:
            x = torch.tanh(layer(x))
            hidden.append(x)
        logits = self.head(x)
        loss = nn.functional.cross_entropy(logits, labels) if labels is not None else None
        return Output(logits, tuple(hidden), loss)


X = torch.randn(300, 10)
y = (X @ torch.randn(10, 3)).argmax(1)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(steps):
    idx = torch.randint(0, 300, (30,))
    out = model(X[idx], labels=y[idx])
    out.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, out.loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
