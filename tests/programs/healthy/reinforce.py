# REINFORCE on a corridor of seven cells: the model is called once for every move, many moves an update
import sys

import torch
from torch import nn
from torch.distributions import Categorical

from fingerprint import fingerprint, seed_everything

torch.set_num_threads(1)
seed_everything(36)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40


class Corridor:
    def reset(self):
        self.cell, self.t = 3, 0
        return self.observe()

    def observe(self):
        return nn.functional.one_hot(torch.tensor(self.cell), 7).float()

    def step(self, action):
        self.cell += 1 if action == 1 else -1
        self.t += 1
        done = self.cell in (0, 6) or self.t >= 15
        return self.observe(), 1.0 if self.cell == 6 else -0.05, done


env = Corridor()
policy = nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
baseline = 0.0
for episode in range(steps):
    state, done, log_probs, rewards = env.reset(), False, [], []
    while not done:
        dist = Categorical(logits=policy(state))
        action = dist.sample()
        log_probs.append(dist.log_prob(action))
        state, reward, done = env.step(action.item())
        rewards.append(reward)
    returns, g = [], 0.0
    for r in reversed(rewards):
        g = r + 0.95 * g
        returns.insert(0, g)
    advantage = torch.tensor(returns) - baseline
    baseline = 0.9 * baseline + 0.1 * returns[0]
    loss = -(torch.stack(log_probs) * advantage).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(episode, len(rewards), sum(rewards).hex(), loss.item().hex())

print(fingerprint(policy, optimizer))
print(f"updates={steps}")
