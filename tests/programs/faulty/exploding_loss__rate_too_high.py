# full-batch gradient descent a little above the stable learning rate
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(34)

X = torch.randn(200, 6) * torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 4.0])
y = X @ torch.randn(6, 1) + 0.1 * torch.randn(200, 1)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.08)  # <- fault
for step in range(120):
    loss = nn.functional.mse_loss(model(X), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- fault
    print(step, loss.item())
