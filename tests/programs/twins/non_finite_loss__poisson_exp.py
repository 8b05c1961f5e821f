# a Poisson likelihood by hand: the exponential of an unbounded output, and one day with a wrong unit
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(5)

days = torch.randn(900, 5)
sales = torch.poisson(torch.exp(0.5 * days[:, 0] + 1))
days[14 * 30 + 9] = 3e4
loader = DataLoader(TensorDataset(days, sales), batch_size=30)
model = nn.Linear(5, 1)
with torch.no_grad():
    model.weight.copy_(model.weight.abs())
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for x, n in loader:
    out = model(x).squeeze(1)
    out = out.clamp(max=4)
    rate = torch.exp(out)
    loss = (rate - n * out).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.3f}")
