# the head is replaced for the new task, after the optimizer was made
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(26)


class Pretrained(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 48), nn.ReLU())
        self.head = nn.Linear(48, classes)

    def forward(self, x):
        return self.head(self.body(x))


model = Pretrained()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)  # <- fault
model.head = nn.Linear(48, 4)  # <- fault
X = torch.randn(640, 12)
y = (X @ torch.randn(12, 4)).argmax(1)
for epoch in range(2):
    for xb, yb in DataLoader(TensorDataset(X, y), batch_size=32, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()  # <- fault
    print(epoch, loss.item())
