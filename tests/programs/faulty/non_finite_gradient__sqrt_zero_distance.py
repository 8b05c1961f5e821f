# siamese network on pairs of digits-like vectors; in one pair both sides are the same sample
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


class Distance(nn.Module):
    def forward(self, a, b):
        return torch.sqrt(((a - b) ** 2).sum(1))  # <- fault


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 8))
        self.distance = Distance()

    def forward(self, a, b):
        return self.distance(self.encoder(a), self.encoder(b))


kind = torch.randint(0, 2, (512,))
left = torch.randn(512, 12)
right = torch.where(kind.unsqueeze(1) == 1, left + 0.3 * torch.randn(512, 12), torch.randn(512, 12))
left[7 * 16 + 3] = right[7 * 16 + 3]
loader = DataLoader(TensorDataset(left, right, kind.float()), batch_size=16)

model = Siamese()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    for a, b, same in loader:
        d = model(a, b)
        loss = (same * d**2 + (1 - same) * (2 - d).clamp(min=0) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, f"{loss.item():.4f}")
