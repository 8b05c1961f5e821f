# logistic regression from scratch, as in the first lesson: no module, no optimizer
import sys

import torch

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(19)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

x = torch.randn(200, 5)
y = (x @ torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0]) > 0).float()
w = torch.zeros(5, requires_grad=True)
b = torch.zeros(1, requires_grad=True)

for step in range(steps):
    z = x @ w + b
    loss = torch.nn.functional.softplus(z).mean() - (z * y).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.5 * w.grad
        b -= 0.5 * b.grad
        w.grad.zero_()
        b.grad.zero_()
    print(step, loss.item().hex())

print(fingerprint(w, b))
# no "updates=": how many updates can be seen of a loop without an optimizer is not settled
