# the gradients are cleared between backward and step
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(21)

X = torch.randn(400, 8)
y = (X @ torch.randn(8, 3)).argmax(1)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(40):
    idx = torch.randint(0, 400, (40,))
    loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
    loss.backward()
    optimizer.zero_grad()  # <- fault
    optimizer.step()  # <- fault
    print(step, loss.item())
