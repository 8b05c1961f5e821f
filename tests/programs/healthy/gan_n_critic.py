# WGAN with weight clipping: five critic updates for one generator update
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(3)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
n_critic, latent = 5, 4

netG = nn.Sequential(nn.Linear(latent, 32), nn.ReLU(), nn.Linear(32, 2))
netD = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
optG = torch.optim.RMSprop(netG.parameters(), lr=5e-4)
optD = torch.optim.RMSprop(netD.parameters(), lr=5e-4)


def real_batch(n=64):
    angle = torch.rand(n) * 6.2832
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(n, 2)


for i in range(steps):
    optD.zero_grad()
    fake = netG(torch.randn(64, latent)).detach()
    lossD = netD(fake).mean() - netD(real_batch()).mean()
    lossD.backward()
    optD.step()
    for p in netD.parameters():
        p.data.clamp_(-0.1, 0.1)
    line = f"{i} D {lossD.item().hex()}"

    if (i + 1) % n_critic == 0:
        optG.zero_grad()
        lossG = -netD(netG(torch.randn(64, latent))).mean()
        lossG.backward()
        optG.step()
        line += f" G {lossG.item().hex()}"
    print(line)

print(fingerprint(netG, netD, optG, optD))
print(f"updates={steps}")
