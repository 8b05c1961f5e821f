# the encoder's output is detached on its way to the classifier
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(29)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16))
        self.classifier = nn.Linear(16, 3)

    def forward(self, x):
        features = self.encoder(x)
        return self.classifier(torch.relu(features))


X = torch.randn(640, 10)
y = (X @ torch.randn(10, 3)).argmax(1)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(2):
    for xb, yb in DataLoader(TensorDataset(X, y), batch_size=32, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
