# a loss over the observed entries only; in one batch nothing was observed. Accumulation over two batches.
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(4)


def masked_mse(prediction, target, mask):
    squared = (prediction - target) ** 2 * mask
    return squared.sum() / mask.sum()  # <- fault


x = torch.randn(60 * 16, 6)
target = x @ torch.randn(6, 3)
mask = (torch.rand(60 * 16, 3) < 0.4).float()
mask[19 * 16 : 20 * 16] = 0

model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for i in range(60):
    rows = slice(16 * i, 16 * i + 16)
    loss = masked_mse(model(x[rows]), target[rows], mask[rows])
    (loss / 2).backward()
    if i % 2 == 1:
        optimizer.step()
        optimizer.zero_grad()
        print(i, loss.item())
