import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(44)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

codes = torch.randn(6, 8)


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 24, bidirectional=True)
        self.out = nn.Linear(48, 6)

    def forward(self, x):
        return self.out(self.rnn(x)[0]).log_softmax(-1)


def batch(n=12):
    lengths = torch.randint(2, 5, (n,))
    labels = [torch.randint(1, 6, (int(k),)) for k in lengths]
    frames = torch.zeros(14, n, 8)
    for j, lab in enumerate(labels):
        frames[: 3 * len(lab), j] = codes[lab].repeat_interleave(3, 0)
    return frames + 0.2 * torch.randn_like(frames), torch.cat(labels), 3 * lengths, lengths


model = Recogniser()
criterion = nn.CTCLoss(blank=0, zero_infinity=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(steps):
    frames, labels, in_len, out_len = batch()
    loss = criterion(model(frames), labels, in_len, out_len)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    print(step, loss.item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
