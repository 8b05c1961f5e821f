# metric learning with a matrix of distances; the diagonal of the matrix is the square root of zero
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)

centers = torch.randn(5, 10) * 2
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)


def pair_loss(z, labels):
    diff = z.unsqueeze(1) - z.unsqueeze(0)
    dist = diff.pow(2).sum(-1).sqrt()  # <- fault
    same = (labels.unsqueeze(1) == labels.unsqueeze(0)).float()
    return (same * dist + (1 - same) * (3 - dist).clamp(min=0)).mean()


for step in range(40):
    labels = torch.randint(0, 5, (24,))
    x = centers[labels] + torch.randn(24, 10)
    loss = pair_loss(net(x), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
