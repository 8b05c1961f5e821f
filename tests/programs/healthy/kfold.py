import sys

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(8)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

digits = load_digits()
data = TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))

total = 0
for fold, (train_idx, test_idx) in enumerate(KFold(3, shuffle=True, random_state=0).split(digits.data)):
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    loader = DataLoader(Subset(data, train_idx.tolist()), batch_size=100, shuffle=True)
    test_loader = DataLoader(Subset(data, test_idx.tolist()), batch_size=200)
    step = 0
    while step < steps // 3:
        model.train()
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(xb), yb)
            loss.backward()
            optimizer.step()
            print(fold, step, loss.item().hex())
            step += 1
            if step == steps // 3:
                break
        model.eval()
        with torch.no_grad():
            right = sum((model(xb).argmax(1) == yb).sum().item() for xb, yb in test_loader)
        print("fold", fold, "accuracy", right / len(test_idx))
    total += step
    print(fingerprint(model, optimizer))
print(f"updates={total}")
