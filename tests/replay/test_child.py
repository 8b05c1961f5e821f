# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from firstfault.replay.child import rerun_in_child
from firstfault.replay.order import MicroscopeOrder

SOURCE = Path(__file__).parents[2] / "src"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE)}
ANSWERING = """
from firstfault.replay.order import MicroscopeOrder
from firstfault.replay.sandbox import enter
order = MicroscopeOrder.from_environment()
box = enter(order.folder)
open("output.txt", "w").write("result")
for step in range(100):
    if step == order.step:
        order.write_answer({"step": step, "loss": float("nan"), "refusal": box.refusal})
        break
"""


def run(script: str, folder: Path, limit: float = 60.0):
    return rerun_in_child([sys.executable, "-c", script], ENVIRONMENT, 7, limit, folder)


def test_a_child_answers_and_writes_nothing_outside_its_folder(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    answer = run(ANSWERING, tmp_path / "child")
    assert answer.reason == ""
    assert answer.answer == {"step": 7, "loss": "nan", "refusal": None}
    assert answer.return_code == 0
    assert list(work.iterdir()) == []


def test_a_child_that_fails_says_why(tmp_path):
    answer = run("raise ValueError('no data')", tmp_path / "child")
    assert answer.answer is None
    assert "code 1" in answer.reason
    assert "ValueError: no data" in answer.reason


def test_a_child_that_is_too_slow_is_ended_with_all_its_helpers(tmp_path):
    mark = tmp_path / "helper"
    script = f"""
import os, time
if os.fork() == 0:
    time.sleep(2)
    open({str(mark)!r}, "w").close()
else:
    time.sleep(60)
"""
    answer = run(script, tmp_path / "child", limit=1.0)
    assert answer.answer is None
    assert answer.return_code is None
    assert "within 1 s" in answer.reason
    time.sleep(1.5)
    assert not mark.exists()


def test_a_child_that_does_not_leave_after_its_answer_is_ended(tmp_path):
    answer = run(ANSWERING + "\nimport time; time.sleep(60)", tmp_path / "child")
    assert answer.answer is not None
    assert answer.seconds < 30


def test_an_order_survives_the_environment(tmp_path):
    order = MicroscopeOrder(step=12, folder=tmp_path)
    assert MicroscopeOrder.from_environment(order.to_environment()) == order
    assert MicroscopeOrder.from_environment({}) is None
    assert order.read_answer() is None
