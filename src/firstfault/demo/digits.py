# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N812
# mypy: ignore-errors
"""Learn to read handwritten digits: 8x8 images, a small convolutional net. The script behind `firstfault demo`.

A user's script, in a user's style, with a mistake that is often made and hard to see: the loss falls as it
should, then is NaN from one step to the next. Run it by itself (`python digits.py`) to see how little that says.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH_SIZE = 64
NUM_PAIRS = 4
NUM_EPOCHS = 4


class Net(nn.Module):
    """Two convolutions and an embedding, from which the digit is read."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 32),
        )
        self.head = nn.Linear(32, 10)

    def forward(self, images):
        embeddings = self.encoder(images)
        return self.head(embeddings), embeddings


def pair_loss(embeddings, labels, margin=1.0):
    """Pull the embeddings of one digit together, push those of two digits apart (contrastive loss)."""
    left, right = torch.randint(len(labels), (2, NUM_PAIRS))
    difference = embeddings[left] - embeddings[right]
    distance = torch.sqrt((difference**2).sum(dim=1))
    same = (labels[left] == labels[right]).float()
    return (same * distance**2 + (1 - same) * F.relu(margin - distance) ** 2).mean()


def main():
    torch.manual_seed(10)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    loader = DataLoader(TensorDataset(images[:1500], labels[:1500]), batch_size=BATCH_SIZE, shuffle=True)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    step = 0
    for epoch in range(NUM_EPOCHS):
        for images_batch, labels_batch in loader:
            logits, embeddings = model(images_batch)
            loss = F.cross_entropy(logits, labels_batch) + 0.1 * pair_loss(embeddings, labels_batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 10 == 0:
                print(f"epoch {epoch}, step {step:2}: loss {loss.item():.3f}", flush=True)
            step += 1

    with torch.no_grad():
        logits, _ = model(images[1500:])
    accuracy = (logits.argmax(dim=1) == labels[1500:]).float().mean().item()
    print(f"accuracy on unseen digits: {accuracy:.1%}")


if __name__ == "__main__":
    main()
