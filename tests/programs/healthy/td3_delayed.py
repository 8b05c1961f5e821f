# TD3 on a one-dimensional toy: delayed policy update, target networks; the actor's loss leaves gradients in the critic
import copy
import sys

import numpy as np
import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(41)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40

actor = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 1), nn.Tanh())
critic = nn.ModuleList(nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 1)) for _ in range(2))
actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=3e-3)
gamma, tau, policy_freq = 0.9, 0.05, 2

rng = np.random.default_rng(3)
buffer = []
state = np.array([0.5, 0.0])
for _ in range(500):
    a = rng.uniform(-1, 1)
    nxt = np.clip(np.array([state[0] + 0.1 * state[1], state[1] + 0.2 * a]), -2, 2)
    buffer.append((state, a, -(nxt[0] ** 2) - 0.1 * a * a, nxt))
    state = nxt if rng.random() < 0.95 else rng.uniform(-1, 1, 2)

for it in range(steps):
    pick = np.random.randint(0, len(buffer), 64)
    s, a, r, s2 = (torch.tensor(np.array([buffer[i][k] for i in pick]), dtype=torch.float32) for k in range(4))
    a, r = a.unsqueeze(1), r.unsqueeze(1)
    with torch.no_grad():
        noise = (0.2 * torch.randn_like(a)).clamp(-0.5, 0.5)
        a2 = (actor_target(s2) + noise).clamp(-1, 1)
        q_target = r + gamma * torch.min(*(q(torch.cat([s2, a2], 1)) for q in critic_target))
    critic_loss = sum(nn.functional.mse_loss(q(torch.cat([s, a], 1)), q_target) for q in critic)
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    line = f"{it} {critic_loss.item().hex()}"
    if it % policy_freq == 0:
        actor_loss = -critic[0](torch.cat([s, actor(s)], 1)).mean()
        actor_opt.zero_grad()
        actor_loss.backward()
        actor_opt.step()
        line += f" {actor_loss.item().hex()}"
        with torch.no_grad():
            for net, target in ((actor, actor_target), (critic, critic_target)):
                for p, tp in zip(net.parameters(), target.parameters()):
                    tp.mul_(1 - tau).add_(tau * p)
    print(line)

print(fingerprint(actor, critic, actor_target, critic_target, actor_opt, critic_opt, rng.bytes(16)))
print(f"updates={steps}")
