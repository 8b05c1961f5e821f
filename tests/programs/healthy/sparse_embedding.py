# word2vec with negative sampling and sparse gradients
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(32)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
vocab = 200


class SkipGram(nn.Module):
    def __init__(self):
        super().__init__()
        self.center = nn.Embedding(vocab, 8, sparse=True)
        self.context = nn.Embedding(vocab, 8, sparse=True)

    def forward(self, c, pos, neg):
        v = self.center(c).unsqueeze(1)
        good = (v * self.context(pos).unsqueeze(1)).sum(-1)
        bad = (v * self.context(neg)).sum(-1)
        logsigmoid = nn.functional.logsigmoid
        return -(logsigmoid(good).mean() + logsigmoid(-bad).mean())


model = SkipGram()
optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.02)
for step in range(steps):
    c = torch.randint(0, 40, (64,))
    loss = model(c, (c + 1) % 40, torch.randint(0, vocab, (64, 5)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
