# an autoencoder in two modules; only one of them is given to the optimizer
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(27)

encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 20))
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=3e-3)
X = torch.randn(400, 4) @ torch.randn(4, 20)
for step in range(40):
    x = X[torch.randint(0, 400, (50,))]
    loss = nn.functional.mse_loss(decoder(encoder(x)), x)
    encoder.zero_grad()
    decoder.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
