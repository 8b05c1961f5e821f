import random
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(11)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class Augmented(Dataset):
    """Random augmentation with all three generators, in the process that loads."""

    def __init__(self, n=256):
        self.x = torch.randn(n, 6)
        self.y = (self.x.sum(1) > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i] + 0.05 * torch.randn(6) + 0.05 * float(np.random.randn())
        if random.random() < 0.5:
            x = x.flip(0)
        return x, self.y[i], i


def main():
    loader = DataLoader(Augmented(), batch_size=32, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    step, order = 0, []
    while step < steps:
        for xb, yb, ib in loader:
            if step == steps:
                break
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(xb), yb)
            loss.backward()
            optimizer.step()
            order += [xb, ib]
            print(step, loss.item().hex())
            step += 1
    print(fingerprint(model, optimizer, order))
    print(f"updates={step}")


if __name__ == "__main__":
    main()
