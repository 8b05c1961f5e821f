# the model is used through a method of its own, and put in eval mode for a first look that nobody undid
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(54)


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
        self.drop = nn.Dropout(0.4)
        self.head = nn.Linear(32, 1)

    def score(self, x):
        return self.head(self.drop(self.body(x))).squeeze(1)


X = torch.randn(400, 10)
y = X[:, 0] - X[:, 1]
model = Scorer()
model.eval()  # <- fault
with torch.no_grad():
    print("before", nn.functional.mse_loss(model.score(X), y).item())
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for i in range(60):
    idx = torch.randint(0, 400, (40,))
    loss = nn.functional.mse_loss(model.score(X[idx]), y[idx])  # <- fault
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- fault
    print(i, loss.item())
