# three trainings in functions, nothing between them: optimizers and models of the ones before are left as they were
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(51)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

X = torch.randn(512, 12)
y = (X[:, :3].sum(1) > 0).long()


def fit(net, targets, updates, lr):
    opt = torch.optim.Adam(net.parameters(), lr=lr)
    for i in range(updates):
        idx = torch.randint(0, len(X), (64,))
        opt.zero_grad()
        loss = targets(net, idx)
        loss.backward()
        opt.step()
        print(i, loss.item().hex())
    return net


teacher = fit(
    nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 2)),
    lambda net, idx: nn.functional.cross_entropy(net(X[idx]), y[idx]),
    steps // 2,
    5e-3,
)


def imitate(net, idx):
    with torch.no_grad():
        wanted = torch.softmax(teacher(X[idx]), 1)
    return nn.functional.kl_div(torch.log_softmax(net(X[idx]), 1), wanted, reduction="batchmean")


student = fit(nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 2)), imitate, steps // 4, 1e-2)
other = fit(nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 2)), imitate, steps // 4, 3e-2)
print(fingerprint(teacher, student, other))
print(f"updates={steps // 2 + 2 * (steps // 4)}")
