# WGAN-GP: a gradient of a gradient, through torch.autograd.grad(create_graph=True)
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(43)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

G = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2))
D = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
optG = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.0, 0.9))
optD = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.0, 0.9))


def gradient_penalty(real, fake):
    alpha = torch.rand(len(real), 1)
    mid = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    (g,) = torch.autograd.grad(D(mid).sum(), mid, create_graph=True)
    return ((g.norm(2, dim=1) - 1) ** 2).mean()


for step in range(steps):
    real = torch.randn(48, 2) * 0.2 + torch.tensor([2.0, -1.0])
    fake = G(torch.randn(48, 3)).detach()
    d_loss = D(fake).mean() - D(real).mean() + 10 * gradient_penalty(real, fake)
    optD.zero_grad(set_to_none=True)
    d_loss.backward()
    optD.step()

    g_loss = -D(G(torch.randn(48, 3))).mean()
    optG.zero_grad(set_to_none=True)
    g_loss.backward()
    optG.step()
    print(step, d_loss.item().hex(), g_loss.item().hex())

print(fingerprint(G, D, optG, optD))
print(f"updates={steps}")
