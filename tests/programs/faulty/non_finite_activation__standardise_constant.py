# every image is standardised inside the model; one image is blank, its standard deviation zero
from collections import OrderedDict

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(7)


class Standardise(nn.Module):
    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        std = x.std(1, keepdim=True)
        return (x - mean) / std  # <- fault


digits = load_digits()
X, y = torch.tensor(digits.data).float(), torch.tensor(digits.target)
X[411] = 0
loader = DataLoader(TensorDataset(X, y), batch_size=64, shuffle=True)
model = nn.Sequential(OrderedDict(
    standardise=Standardise(), hidden=nn.Linear(64, 48), relu=nn.ReLU(), out=nn.Linear(48, 10)
))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    model.train()
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    print("epoch", epoch, loss.item())
