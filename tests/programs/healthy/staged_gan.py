# the generator warms up against a fixed critic; the critic's optimizer is made when its turn comes
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(52)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
opt_d = None
for i in range(steps):
    fake = generator(torch.randn(64, 4))
    if i == steps // 4:
        opt_d = torch.optim.Adam(critic.parameters(), lr=1e-3)
    if opt_d is not None:
        real = torch.randn(64, 2) * 0.5 + 1
        opt_d.zero_grad()
        loss_d = nn.functional.softplus(-critic(real)).mean() + nn.functional.softplus(critic(fake.detach())).mean()
        loss_d.backward()
        opt_d.step()
    opt_g.zero_grad()
    loss_g = nn.functional.softplus(-critic(fake)).mean()
    loss_g.backward()
    opt_g.step()
    print(i, loss_g.item().hex())
print(fingerprint(generator, critic, opt_g, opt_d))
