# one optimizer a parameter, stepped from a post-accumulate-grad hook: gradients are gone when backward returns
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(17)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(400, 12)
y = (X @ torch.randn(12, 4)).argmax(1)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
optimizers = {p: torch.optim.Adam([p], lr=5e-3) for p in model.parameters()}


def optimizer_hook(p):
    optimizers[p].step()
    optimizers[p].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(optimizer_hook)

for step in range(steps):
    idx = torch.randint(0, 400, (50,))
    loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
    loss.backward()
    print(step, loss.item().hex())

print(fingerprint(model, list(optimizers.values())))
print(f"updates={steps}")
