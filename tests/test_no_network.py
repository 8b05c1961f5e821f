# SPDX-License-Identifier: Apache-2.0
"""No network: the interpreter itself tells of every socket, in the parent and in the training alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

#: stands in the interpreters of the parent and of the training, and writes down what reaches for the network
_WITNESS = """
import os, sys
_log = open(os.environ["WITNESS"], "a")
def _hook(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
                 "socket.gethostbyname", "urllib.Request", "http.client.connect"):
        _log.write(f"{event} {arguments!r}\\n")
        _log.flush()
sys.addaudithook(_hook)
_log.write(f"witness {os.path.basename(sys.argv[0]) if hasattr(sys, 'argv') else ''}\\n")
_log.flush()
"""
#: makes a finding that is looked at closely, and tries a socket once itself, so that silence means something
_SCRIPT = """
import os, socket
import torch
from torch import nn
open(os.environ["WITNESS"], "a").write("the script\\n")
probe = socket.socket(socket.AF_UNIX)
try:
    probe.connect("/nowhere")
except OSError:
    pass
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 3)).sum()
    if step == 4:
        loss = torch.sqrt(loss - 99)
    loss.backward()
    optimizer.step()
"""


def test_a_run_and_looking_at_it_reach_for_no_network(tmp_path: Path) -> None:
    (tmp_path / "witness").mkdir()
    (tmp_path / "witness" / "sitecustomize.py").write_text(_WITNESS)
    (tmp_path / "train.py").write_text(_SCRIPT)
    log = tmp_path / "log"
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "witness"),
        "WITNESS": str(log),
        "FIRSTFAULT_HOME": str(tmp_path / "home"),
    }
    for words, exit_code in ((["run", "train.py"], 3), (["diagnose"], 0), (["show"], 0), (["runs"], 0)):
        ended = subprocess.run(
            [sys.executable, "-m", "firstfault", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert ended.returncode == exit_code, ended.stderr
    lines = log.read_text().splitlines()
    assert "the script" in lines
    assert sum(line.startswith("witness") for line in lines) >= 5  # parent and child of the run, and three verbs
    reached = [line for line in lines if line.startswith(("socket", "urllib", "http"))]
    # the script's own, in each process that ran it: it is run again for a closer look
    assert reached
    assert all("/nowhere" in line for line in reached), reached
