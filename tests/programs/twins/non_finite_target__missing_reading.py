# a time series with a gap is the target of a forecast; windows are cut by hand, the loss is a function
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(15)

t = torch.arange(1300.0)
series = torch.sin(t / 9) + 0.1 * torch.randn(1300)
window = 12
X = torch.stack([series[i : i + window] for i in range(1200)])
Y = torch.stack([series[i + window : i + window + 3] for i in range(1200)])
Y[5 * 32 + 20, 1] = series[5 * 32 + 20 + window]  # the sensor was off: last reading
net = nn.Sequential(nn.Linear(window, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(36):
    rows = slice(32 * step, 32 * step + 32)
    loss = F.smooth_l1_loss(net(X[rows]), Y[rows])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
