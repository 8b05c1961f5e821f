# SPDX-License-Identifier: Apache-2.0
"""The rules say the same beside the training and over its stored records, to the last field."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.engine.loop import RuleLoop
from firstfault.engine.offline import judge
from firstfault.records.encoding import to_json
from firstfault.records.finding import Finding
from firstfault.rules.registry import rules_for
from firstfault.store.reader import RunReader

_PROGRAMS = Path(__file__).parents[1] / "programs"
#: makes as many different findings as one training can: nobody stops it
_MANY_FAULTS = """
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 4), nn.Linear(4, 1)
model = nn.Sequential(body, nn.Dropout(0.1), head)
model.eval()
optimizer = torch.optim.SGD(body.parameters(), lr=0.0)
for step in range(40):
    x = torch.randn(8, 4)
    loss = (model(x) ** 2).mean() * 1.7 ** step
    if step > 35:
        loss = loss * float("nan")
    loss.backward()
    optimizer.step()
"""
_MANY = {
    "gradients_never_cleared", "training_in_eval_mode", "parameter_without_optimizer", "update_changed_nothing",
    "exploding_loss", "non_finite_loss",
}  # fmt: skip


def _recorded(script: Path, home: Path, *options: str) -> RunReader:
    environment = {**os.environ, "FIRSTFAULT_HOME": str(home)}
    ended = subprocess.run(
        [sys.executable, "-m", "firstfault", "run", "--quiet", *options, str(script)],
        env=environment,
        cwd=home.parent,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    (run,) = (home / "default").iterdir() if home.exists() else ()
    assert (run / "run.json").exists(), ended.stderr
    return RunReader(run)


def _judged_offline(reader: RunReader, *, ignore: tuple[str, ...] = ()) -> list[Finding]:
    return judge(reader.records(), RuleLoop(rules_for((), pytest.fail), ignore=ignore))


@pytest.mark.parametrize(
    "program",
    [
        "faulty/non_finite_gradient__where_log.py",  # stopped in the step: the record of a withheld update
        "faulty/non_finite_input__csv_gap.py",
        "healthy/kfold.py",  # several trainings in one run
        "healthy/gan_n_critic.py",  # several optimizers
    ],
)
def test_a_stored_run_is_judged_as_it_was_in_training(program: str, tmp_path: Path) -> None:
    reader = _recorded(_PROGRAMS / program, tmp_path / "home")
    # the second run that looks closer is another process, and no rule: it adds a finding after the run has ended
    stored = [finding for finding in reader.findings() if finding.rung != "child"]
    assert to_json(_judged_offline(reader)) == to_json(stored)
    assert bool(stored) is program.startswith("faulty")
    assert reader.skipped == ()
    assert len(reader.steps()) > 3


def test_many_findings_of_one_run_are_the_same_and_in_the_same_order(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_MANY_FAULTS)
    reader = _recorded(tmp_path / "train.py", tmp_path / "home", "--stop-on", "never")
    stored = list(reader.findings())
    assert {finding.rule for finding in stored} >= _MANY
    assert to_json(_judged_offline(reader)) == to_json(stored)
    without = [finding for finding in stored if finding.rule not in ("exploding_loss", "non_finite_loss")]
    judged = _judged_offline(reader, ignore=("exploding_loss", "non_finite_loss"))
    assert to_json(judged) == to_json(without)
