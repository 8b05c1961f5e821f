# LoRA: B starts at zero, so A has no gradient at first; the pretrained weight is frozen
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(51)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class LoRALinear(nn.Module):
    def __init__(self, base, r=2, alpha=8):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.A = nn.Parameter(torch.randn(r, base.in_features) / base.in_features**0.5)
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.A.T @ self.B.T)


model = nn.Sequential(LoRALinear(nn.Linear(12, 32)), nn.ReLU(), LoRALinear(nn.Linear(32, 4)))
X = torch.randn(300, 12)
y = (X @ torch.randn(12, 4)).argmax(1)
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2, weight_decay=0.0)
for step in range(steps):
    idx = torch.randint(0, 300, (50,))
    loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
