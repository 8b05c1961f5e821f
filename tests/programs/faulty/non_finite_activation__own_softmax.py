# a softmax without subtracting the maximum: the exponential overflows as soon as a score is above 88
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(6)


class Softmax(nn.Module):
    def forward(self, x):
        e = torch.exp(x)  # <- fault
        return e / e.sum(-1, keepdim=True)


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.softmax = Softmax()

    def forward(self, x):
        return self.softmax(self.q(x) @ self.k(x).transpose(1, 2)) @ self.v(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention(8)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(self.attention(x).mean(1))


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(40):
    y = torch.randint(0, 2, (20,))
    x = torch.randn(20, 6, 8)
    x[y == 1, :, 0] += 1
    if step == 6:
        x[13] *= 100  # the sensor's gain was changed
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, round(loss.item(), 4))
