# truncated back-propagation through time: the hidden state goes on from batch to batch, detached
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(47)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class CharRNN(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.embed = nn.Embedding(n, 12)
        self.rnn = nn.LSTM(12, 32, batch_first=True)
        self.out = nn.Linear(32, n)

    def forward(self, x, hidden):
        h, hidden = self.rnn(self.embed(x), hidden)
        return self.out(h), hidden


text = "the quick brown fox jumps over the lazy dog. " * 60
chars = sorted(set(text))
stream = torch.tensor([chars.index(c) for c in text])
stream = stream[: len(stream) // 8 * 8].view(8, -1)
model = CharRNN(len(chars))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
step, bptt = 0, 16
while step < steps:
    hidden = None
    for t in range(0, stream.size(1) - bptt - 1, bptt):
        if step == steps:
            break
        if hidden is not None:
            hidden = tuple(h.detach() for h in hidden)
        logits, hidden = model(stream[:, t : t + bptt], hidden)
        loss = nn.functional.cross_entropy(logits.transpose(1, 2), stream[:, t + 1 : t + bptt + 1])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(step, loss.item().hex())
        step += 1

print(fingerprint(model, optimizer, hidden))
print(f"updates={step}")
