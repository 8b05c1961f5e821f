import argparse
import logging
import sys

import torch
from torch import nn

from fingerprint import fingerprint, seed_everything

log = logging.getLogger("train")


def parse_args():
    parser = argparse.ArgumentParser(description="train a small classifier")
    parser.add_argument("steps", type=int, nargs="?", default=40)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--seed", type=int, default=54)
    return parser.parse_args()


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    torch.set_num_threads(1)
    seed_everything(args.seed)
    X = torch.randn(300, 10)
    y = (X @ torch.randn(10, 3)).argmax(1)
    model = nn.Sequential(nn.Linear(10, args.hidden), nn.ReLU(), nn.Linear(args.hidden, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    log.info("arguments %s, script %s", vars(args), sys.argv[0].rsplit("/", 1)[-1])
    for step in range(args.steps):
        idx = torch.randint(0, 300, (50,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(X[idx]), y[idx])
        loss.backward()
        optimizer.step()
        print(step, loss.item().hex())
        if step % 10 == 0:
            log.info("step %d loss %.4f", step, loss.item())
    print(fingerprint(model, optimizer))
    print(f"updates={args.steps}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
