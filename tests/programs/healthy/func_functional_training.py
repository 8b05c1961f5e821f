# functional style: parameters are a dict, gradients come from torch.func, the optimizer steps leaf tensors
import sys

import torch
from torch import nn
from torch.func import functional_call, grad_and_value

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(22)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(256, 5)
y = torch.sin(X.sum(1, keepdim=True))
net = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
params = {k: v.detach().clone() for k, v in net.named_parameters()}
optimizer = torch.optim.Adam(params.values(), lr=1e-2)


def compute_loss(params, x, target):
    return nn.functional.mse_loss(functional_call(net, params, (x,)), target)


for step in range(steps):
    idx = torch.randint(0, 256, (64,))
    grads, loss = grad_and_value(compute_loss)(params, X[idx], y[idx])
    for name, p in params.items():
        p.grad = grads[name]
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(params, optimizer))
# no "updates=", and no loss that `backward` was ever called on: what is seen of it is not settled
