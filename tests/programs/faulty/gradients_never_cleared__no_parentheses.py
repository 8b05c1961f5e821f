# the method is named but not called
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(17)

x = torch.linspace(-1, 1, 200).unsqueeze(1)
y = x**2 + 0.05 * torch.randn(200, 1)
net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for t in range(40):
    loss = ((net(x) - y) ** 2).mean()
    optimizer.zero_grad  # <- fault
    loss.backward()  # <- fault
    optimizer.step()  # <- fault
    if t % 5 == 0:
        print(t, loss.item())
