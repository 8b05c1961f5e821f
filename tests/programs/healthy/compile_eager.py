import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(20)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(10, 32)
        self.drop = nn.Dropout(0.1)
        self.b = nn.Linear(32, 3)

    def forward(self, x):
        return self.b(self.drop(torch.relu(self.a(x))))


X = torch.randn(300, 10)
y = (X @ torch.randn(10, 3)).argmax(1)
model = Net()
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for step in range(steps):
    idx = torch.randint(0, 300, (60,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(compiled(X[idx]), y[idx])
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print("graphs", torch._dynamo.utils.counters["stats"]["unique_graphs"])
print(fingerprint(model, optimizer))
print(f"updates={steps}")
