# sequences of different lengths, padded; the loss is summed over tokens, so it swings with the batch
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(45)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
PAD = -100

data = [torch.randint(0, 10, (int(n),)) for n in torch.randint(2, 16, (200,))]


def collate(seqs):
    x = pad_sequence(seqs, batch_first=True)
    y = pad_sequence([s % 3 for s in seqs], batch_first=True, padding_value=PAD)
    return x, y, torch.tensor([len(s) for s in seqs])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 12)
        self.lstm = nn.LSTM(12, 24, batch_first=True)
        self.out = nn.Linear(24, 3)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embed(x), lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(h)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate)
step = 0
while step < steps:
    for x, y, lengths in loader:
        loss = nn.functional.cross_entropy(net(x, lengths).transpose(1, 2), y, ignore_index=PAD, reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, int(lengths.sum()), loss.item().hex())
        step += 1
        if step == steps:
            break

print(fingerprint(net, optimizer))
print(f"updates={step}")
