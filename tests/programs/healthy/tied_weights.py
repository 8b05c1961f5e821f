import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(26)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
vocab, dim = 24, 16


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.Linear(dim, vocab, bias=False)
        self.decoder.weight = self.embed.weight

    def forward(self, tokens):
        return self.decoder(self.rnn(self.embed(tokens))[0])


model = LanguageModel()
nn.init.normal_(model.embed.weight, std=0.2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(steps):
    start = torch.randint(0, vocab, (16, 1))
    text = (start + 5 * torch.arange(9)) % vocab
    loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
