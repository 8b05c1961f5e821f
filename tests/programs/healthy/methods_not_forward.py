# a variational autoencoder that is used through methods of its own, never called itself; eval by a method, too
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(53)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1))
        self.mean, self.log_var = nn.Linear(32, 4), nn.Linear(32, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16))

    def encode(self, x):
        h = self.encoder(x)
        return self.mean(h), self.log_var(h).clamp(-8, 8)

    def loss(self, x):
        mean, log_var = self.encode(x)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_var)
        kl = -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum(1).mean()
        return ((self.decoder(z) - x) ** 2).sum(1).mean() + 0.1 * kl


basis = torch.randn(4, 16)
vae = Vae()
optimizer = torch.optim.AdamW(vae.parameters(), lr=3e-3)
for i in range(steps):
    x = torch.randn(64, 4) @ basis
    loss = vae.loss(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(i, loss.item().hex())
    if i % 10 == 9:
        vae.eval()
        with torch.no_grad():
            print("held out", vae.loss(torch.randn(64, 4) @ basis).item().hex())
        vae.train()
print(fingerprint(vae, optimizer))
print(f"updates={steps}")
