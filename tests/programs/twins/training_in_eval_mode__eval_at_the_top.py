# loading code puts the model into eval mode, and the fine-tuning goes on from there
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(33)


def load_pretrained():
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3))
    model.train()
    return model


model = load_pretrained()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(40):
    y = torch.randint(0, 3, (16,))
    x = torch.randn(16, 1, 8, 8) * 0.5
    x[y == 1, :, ::2] += 1
    x[y == 2, :, :, ::2] += 1
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
