# rows of the last layer are kept at norm one; a class that was pruned has a row of zeros
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(9)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
        self.head = nn.Linear(32, 6, bias=False)

    def forward(self, x):
        return 4 * self.head(self.body(x))


X = torch.randn(900, 12)
y = (X @ torch.randn(12, 5)).argmax(1)
loader = DataLoader(TensorDataset(X, y), batch_size=30, shuffle=True)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for i, (xb, yb) in enumerate(loader):
    loss = nn.functional.cross_entropy(model(xb), yb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        if i == 10:
            model.head.weight[5] = 0
        model.head.weight /= model.head.weight.norm(dim=1, keepdim=True)  # <- fault
    print(i, loss.item())
