# nn.TransformerEncoder: in evaluation without gradients it takes fused kernels, unless somebody hooked its layers
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(23)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16, padding_idx=0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 20)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens), src_key_padding_mask=tokens == 0))


def batch(n=16):
    tokens = torch.randint(1, 20, (n, 10))
    lengths = torch.randint(4, 11, (n, 1))
    tokens[torch.arange(10).unsqueeze(0) >= lengths] = 0
    return tokens, torch.where(tokens > 0, (tokens * 3) % 20, 0)


model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
valid = batch(32)
for step in range(steps):
    model.train()
    tokens, target = batch()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).transpose(1, 2), target, ignore_index=0)
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
    if step % 10 == 9:
        model.eval()
        with torch.inference_mode():
            logits = model(valid[0])
            val = nn.functional.cross_entropy(logits.transpose(1, 2), valid[1], ignore_index=0)
        with torch.no_grad():
            again = model(valid[0])
        print("valid", val.item().hex(), again.sum().item().hex())

print(fingerprint(model, optimizer))
print(f"updates={steps}")
