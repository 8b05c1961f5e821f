# a checkpoint stored in half precision to save space: the bias of a price model does not fit into float16
import io

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(10)


class PriceModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))


def save(model, file):
    torch.save({k: v.half() for k, v in model.state_dict().items()}, file)  # <- fault


pretrained = PriceModel()
with torch.no_grad():
    pretrained.out.weight.mul_(2e4)
    pretrained.out.bias.fill_(240_000.0)
file = io.BytesIO()
save(pretrained, file)
file.seek(0)

model = PriceModel()
model.load_state_dict(torch.load(file))  # <- fault
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
x = torch.randn(200, 4)
price = 240_000 + 9_000 * x[:, :1] + 2_000 * torch.randn(200, 1)
for epoch in range(30):
    idx = torch.randperm(200)[:100]
    loss = nn.functional.l1_loss(model(x[idx]), price[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
