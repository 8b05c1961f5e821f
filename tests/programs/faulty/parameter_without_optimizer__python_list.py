# layers in a plain list are not found by model.parameters()
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(28)


class Net(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.stem = nn.Linear(10, 32)
        self.layers = [nn.Linear(32, 32) for _ in range(depth)]  # <- fault
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.out(x)


X = torch.randn(400, 10)
y = (X @ torch.randn(10, 3)).argmax(1)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)  # <- fault
for step in range(40):
    idx = torch.randint(0, 400, (50,))
    loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- fault
    print(step, loss.item())
