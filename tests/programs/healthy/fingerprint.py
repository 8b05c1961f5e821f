"""One line that is equal only if two trainings were bitwise equal: a helper beside the healthy programs."""
import hashlib
import random

import numpy as np
import torch


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _feed(digest, thing):
    """Hash any nesting of what a training consists of, each kind of thing under its own tag."""
    if isinstance(thing, torch.nn.Module):
        for name, module in thing.named_modules():
            _feed(digest, ("module", name, type(module).__name__, module.training))
        for name, p in thing.named_parameters(remove_duplicate=False):
            _feed(digest, ("parameter", name, p.requires_grad, p.detach(), p.grad))
        for name, b in thing.named_buffers(remove_duplicate=False):
            _feed(digest, ("buffer", name, b))
    elif isinstance(thing, torch.Generator):
        _feed(digest, thing.get_state())
    elif isinstance(thing, torch.Tensor):
        if thing.is_sparse:
            _feed(digest, ("sparse", thing.coalesce().indices(), thing.coalesce().values()))
            return
        digest.update(f"tensor {thing.dtype} {tuple(thing.shape)}".encode())
        digest.update(thing.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(thing, np.ndarray):
        digest.update(f"array {thing.dtype} {thing.shape}".encode())
        digest.update(np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, dict):
        for key, value in thing.items():
            _feed(digest, ("key", key, value))
    elif isinstance(thing, (list, tuple)):
        digest.update(f"[{len(thing)}".encode())
        for item in thing:
            _feed(digest, item)
        digest.update(b"]")
    elif isinstance(thing, float):
        digest.update(thing.hex().encode())
    elif thing is None or isinstance(thing, (bool, int, str, bytes)):
        digest.update(f"{type(thing).__name__} {thing!r};".encode())
    elif hasattr(thing, "state_dict"):  # optimizers, schedulers, scalers
        state = thing.state_dict()
        _feed(digest, {k: v for k, v in state.items() if not callable(v) and k != "lr_lambdas"})
    else:
        raise TypeError(f"no fingerprint for {type(thing).__name__}")


def fingerprint(*things):
    """Everything given, and the global random states of Python, numpy and torch."""
    digest = hashlib.sha256()
    for thing in things:
        _feed(digest, thing)
    _feed(digest, (random.getstate(), np.random.get_state(), torch.get_rng_state()))
    return "fingerprint=" + digest.hexdigest()
