# pure half precision: Adam's epsilon of 1e-8 is zero in float16, and zero is divided by zero
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(11)

X = torch.randn(512, 16).half()
y = (X.float() @ torch.randn(16, 4)).argmax(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4)).half()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # <- fault
for step in range(40):
    idx = torch.randint(0, 512, (64,))
    loss = nn.functional.cross_entropy(model(X[idx]).float(), y[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- fault
    print(step, loss.item())
