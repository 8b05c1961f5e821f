# torch.no_grad() was left from the time when the backbone was frozen; bf16 autocast and accumulation
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(31)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(6))
        self.head = nn.Linear(48, 2)

    def forward(self, x):
        with torch.no_grad():  # <- fault
            h = self.backbone(x)  # <- fault
        return self.head(h.flatten(1))


model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for i in range(60):
    y = torch.randint(0, 2, (24,))
    x = torch.randn(24, 1, 32)
    x[y == 1] += 1.5 * torch.sin(torch.arange(32.0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y) / 2
    loss.backward()
    if i % 2 == 1:
        optimizer.step()
        optimizer.zero_grad()
        print(i, 2 * loss.item())
