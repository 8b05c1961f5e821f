# two optimizers: the generator's gradients are cleared twice, the discriminator's never
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(18)

G = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
D = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
optG = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.999))
optD = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
for step in range(40):
    real = 0.3 * torch.randn(32, 2) + torch.tensor([1.0, 2.0])
    fake = G(torch.randn(32, 4))

    optG.zero_grad()  # <- fault
    d_loss = bce(D(real), ones) + bce(D(fake.detach()), zeros)
    d_loss.backward()  # <- fault
    optD.step()  # <- fault

    optG.zero_grad()
    g_loss = bce(D(fake), ones)
    g_loss.backward()
    optG.step()
    print(step, d_loss.item(), g_loss.item())
