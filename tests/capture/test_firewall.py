# SPDX-License-Identifier: Apache-2.0
"""Where our own failures stop, and where our own time is counted."""

from __future__ import annotations

import time

import pytest

from firstfault.capture.firewall import Firewall
from firstfault.capture.stop import EXIT_CODE, TrainingStopped


class Part:
    """A part of ours that fails from a certain call on."""

    def __init__(self, fails_at: int, error: BaseException) -> None:
        self.calls = 0
        self._fails_at = fails_at
        self._error = error

    def work(self, number: int, *, more: int = 0) -> int:
        """Adds up."""
        self.calls += 1
        if self.calls == self._fails_at:
            raise self._error
        return number + more


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def firewall(warnings: list[str]) -> Firewall:
    return Firewall(warnings.append)


def test_a_part_that_works_is_as_if_it_were_not_guarded(firewall: Firewall, warnings: list[str]) -> None:
    guarded = firewall.guard("losses", Part(0, ValueError()).work)
    assert guarded(1, more=2) == 3
    assert (guarded.__name__, guarded.__doc__) == ("work", "Adds up.")
    assert warnings == []


def test_a_part_that_fails_is_switched_off_with_one_warning(firewall: Firewall, warnings: list[str]) -> None:
    part = Part(2, ValueError("first line\nsecond line"))
    guarded = firewall.guard("losses", part.work)
    assert [guarded(1) for _ in range(5)] == [1, None, None, None, None]
    assert part.calls == 2
    assert warnings == [
        "watching of losses is switched off, the training goes on (ValueError: first line)",
    ]
    assert firewall.switched_off == {"losses": "ValueError: first line"}


def test_all_functions_of_a_part_go_together_and_other_parts_go_on(firewall: Firewall, warnings: list[str]) -> None:
    failing, same, other = Part(1, KeyError("x")), Part(1, KeyError("y")), Part(0, KeyError())
    guards = [firewall.guard(*entry) for entry in (("a", failing.work), ("a", same.work), ("b", other.work))]
    assert [guarded(1) for guarded in guards] == [None, None, 1]
    assert same.calls == 0
    assert len(warnings) == 1


@pytest.mark.parametrize("error", [TrainingStopped("a fault"), KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_what_is_meant_to_end_the_script_passes(
    error: BaseException, firewall: Firewall, warnings: list[str]
) -> None:
    guarded = firewall.guard("losses", Part(1, error).work)
    with pytest.raises(type(error)):
        guarded(1)
    assert guarded(1) == 1  # nothing of ours has failed
    assert warnings == []


def test_out_of_memory_and_errors_without_words_are_told_by_their_kind(
    firewall: Firewall, warnings: list[str]
) -> None:
    firewall.guard("a", Part(1, MemoryError()).work)(1)
    firewall.guard("b", Part(1, RecursionError("too deep")).work)(1)
    assert "MemoryError" in warnings[0]
    assert "RecursionError: too deep" in warnings[1]


def test_an_error_that_cannot_even_be_said_is_caught_too(firewall: Firewall, warnings: list[str]) -> None:
    class UnspeakableError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    firewall.guard("a", Part(1, UnspeakableError()).work)(1)
    assert len(warnings) == 1
    assert "UnspeakableError" in warnings[0]


def test_switched_off_as_a_whole_nothing_is_called(firewall: Firewall) -> None:
    part = Part(1, ValueError())
    guarded = firewall.guard("a", part.work)
    firewall.enabled = False
    assert (guarded(1), part.calls) == (None, 0)


def test_time_inside_is_counted_once_for_calls_within_calls(firewall: Firewall) -> None:
    inner = firewall.guard("inner", lambda: time.sleep(0.02))
    outer = firewall.guard("outer", lambda: [inner(), time.sleep(0.02)])
    began = time.perf_counter()
    outer()
    elapsed = time.perf_counter() - began
    assert 0.04 <= firewall.seconds <= elapsed
    counted = firewall.seconds
    time.sleep(0.01)
    assert firewall.seconds == counted


def test_time_is_counted_even_where_the_part_fails_or_stops(firewall: Firewall) -> None:
    def fail_late() -> None:
        time.sleep(0.01)
        raise TrainingStopped("late")

    with pytest.raises(TrainingStopped):
        firewall.guard("a", fail_late)()
    assert firewall.seconds >= 0.01


def test_a_stop_ends_the_script_with_its_own_exit_code_and_says_why() -> None:
    stop = TrainingStopped("non_finite_gradient: gradients are NaN")
    assert (stop.code, EXIT_CODE) == (3, 3)
    assert stop.reason.startswith("non_finite_gradient")
    assert not isinstance(stop, Exception)  # `except Exception` in a script does not catch it
