# two tasks in turn: in every step one of the heads has no gradient
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(40)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(9, 32), nn.ReLU())
        self.heads = nn.ModuleDict({"classify": nn.Linear(32, 3), "regress": nn.Linear(32, 1)})

    def forward(self, x, task):
        return self.heads[task](self.shared(x))


X = torch.randn(400, 9)
label = (X @ torch.randn(9, 3)).argmax(1)
value = X[:, :2].sum(1, keepdim=True)
model = MultiTask()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(steps):
    idx = torch.randint(0, 400, (40,))
    optimizer.zero_grad()
    if step % 2 == 0:
        loss = nn.functional.cross_entropy(model(X[idx], "classify"), label[idx])
    else:
        loss = nn.functional.mse_loss(model(X[idx], "regress"), value[idx])
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
