# causal attention with -inf in the mask and in the scores: infinities that are meant
import math
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(30)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
T, D, V = 10, 16, 12


class MaskedScores(nn.Module):
    def forward(self, q, k, mask):
        return (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).masked_fill(mask, float("-inf"))


class OwnAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)
        self.scores = MaskedScores()
        self.register_buffer("mask", torch.ones(T, T, dtype=torch.bool).triu(1))

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.scores(q, k, self.mask).softmax(-1) @ v


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(V, D)
        self.pos = nn.Parameter(torch.zeros(T, D))
        self.own = OwnAttention()
        self.library = nn.MultiheadAttention(D, 2, batch_first=True)
        self.register_buffer("causal", torch.full((T, T), float("-inf")).triu(1))
        self.head = nn.Linear(D, V)

    def forward(self, tokens):
        x = self.embed(tokens) + self.pos
        x = x + self.own(x)
        x = x + self.library(x, x, x, attn_mask=self.causal, need_weights=False)[0]
        return self.head(x)


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(steps):
    text = (torch.randint(0, V, (16, 1)) + torch.randint(1, 4, (16, 1)) * torch.arange(T + 1)) % V
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, V), text[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
