# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.replay import initial_state

SOURCE = Path(__file__).parents[2] / "src"


def test_python_draws_the_same_numbers_after_a_trip_through_json():
    random.gauss(0, 1)  # leaves half a pair behind
    states = json.loads(json.dumps(initial_state.capture()))
    drawn = [random.gauss(0, 1), random.random()]
    initial_state.restore(states)
    assert [random.gauss(0, 1), random.random()] == drawn


def test_numpy_draws_the_same_numbers():
    numpy = pytest.importorskip("numpy")
    numpy.random.normal()
    states = json.loads(json.dumps(initial_state.capture("numpy")))
    assert set(states) == {"numpy"}
    drawn = numpy.random.normal(size=5).tolist()
    initial_state.restore(states)
    assert numpy.random.normal(size=5).tolist() == drawn


def test_torch_draws_the_same_numbers():
    torch = pytest.importorskip("torch")
    torch.randn(3)
    states = json.loads(json.dumps(initial_state.capture()))
    drawn = torch.randn(20)
    torch.manual_seed(3)
    initial_state.restore(states, "torch")
    assert torch.equal(torch.randn(20), drawn)


def test_nothing_is_imported_for_it():
    script = """
import sys
from firstfault.replay import initial_state
states = initial_state.capture()
initial_state.restore(states)
assert "numpy" not in sys.modules and "torch" not in sys.modules
assert set(states) == {"hash_seed", "python"}
"""
    subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": str(SOURCE)}, check=True)
