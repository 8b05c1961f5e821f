# per-sample gradients, clipped one by one and averaged: the heart of differentially private SGD
import sys

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(21)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(256, 8)
y = (X[:, 0] + X[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)


def sample_loss(params, x, target):
    out = functional_call(model, params, (x.unsqueeze(0),))
    return nn.functional.cross_entropy(out, target.unsqueeze(0))


per_sample = vmap(grad(sample_loss), in_dims=(None, 0, 0))

for step in range(steps):
    idx = torch.randint(0, 256, (32,))
    params = {k: v.detach() for k, v in model.named_parameters()}
    loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
    optimizer.zero_grad()
    loss.backward()
    grads = per_sample(params, X[idx], y[idx])
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
    scale = (1.0 / norms).clamp(max=1.0)
    for name, p in model.named_parameters():
        p.grad = torch.einsum("b,b...->...", scale, grads[name]) / 32
    optimizer.step()
    print(step, loss.item().hex(), norms.max().item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
