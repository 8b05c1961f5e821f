# an auxiliary head that is computed, for monitoring, and is not in the loss; and a decoder never called
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(39)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 3)
        self.aux_head = nn.Linear(32, 2)
        self.pretraining_decoder = nn.Linear(32, 10)

    def forward(self, x):
        h = self.trunk(x)
        return self.head(h), self.aux_head(h)


X = torch.randn(300, 10)
y = (X @ torch.randn(10, 3)).argmax(1)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(steps):
    idx = torch.randint(0, 300, (32,))
    logits, aux = net(X[idx])
    loss = nn.functional.cross_entropy(logits, y[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), aux.detach().mean().item().hex())

print(fingerprint(net, optimizer))
print(f"updates={steps}")
