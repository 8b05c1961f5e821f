# "where" guards the value of the logarithm, not its gradient; with gradient accumulation
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(2)
accumulate = 2

X = torch.randn(960, 9)
hours_open = torch.randint(1, 5, (960,)).float()
hours_open[402] = 0  # closed on that day
count = torch.poisson(hours_open * torch.exp(0.5 * X[:, 0]))
loader = DataLoader(TensorDataset(X, hours_open, count), batch_size=32)
model = nn.Sequential(nn.Linear(9, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

for epoch in range(2):
    for i, (x, hours, n) in enumerate(loader):
        rate = hours * torch.exp(model(x).squeeze(1))
        log_rate = torch.where(rate > 0, torch.log(rate), torch.zeros_like(rate))  # <- fault
        loss = (rate - n * log_rate).mean() / accumulate
        loss.backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            print(epoch, i, round(accumulate * loss.item(), 4))
