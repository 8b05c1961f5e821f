# infer.py: no training at all, a trained model is applied to new data; a feature is below what its logarithm can take
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(8)


class LogFeatures(nn.Module):
    def forward(self, x):
        return torch.log(1 + x)  # <- fault


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = LogFeatures()
        self.hidden = nn.Linear(5, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(self.features(x)))).sigmoid()


model = Scorer()
model.eval()
accounts = torch.rand(200, 5) * 100
accounts[117, 2] = -40.0  # a refund
with torch.no_grad():
    for i in range(0, 200, 20):
        scores = model(accounts[i : i + 20])
        print(i, round(scores.mean().item(), 5))
