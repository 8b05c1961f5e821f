# SPDX-License-Identifier: Apache-2.0
"""Where a step begins and ends."""

from __future__ import annotations

import itertools

import pytest

from firstfault.capture.budget import Budget
from firstfault.capture.firewall import Firewall
from firstfault.capture.recorder import Recorder
from firstfault.records.step import StepRecord, Update

CRITIC, GENERATOR = 1, 2


class Training:
    """Tells a recorder what a capture would."""

    def __init__(self) -> None:
        self.records: list[StepRecord] = []
        clock = itertools.count()
        self.recorder = Recorder(
            Budget(0.025), Firewall(pytest.fail), (self.records.append,), clock=lambda: float(next(clock))
        )

    def update(self, key: int = CRITIC, *losses: float, norms: tuple[float, ...] = ()) -> None:
        for value in losses:
            self.recorder.loss("train.py:6", value)
            self.recorder.backward()
        self.recorder.before_update(key)
        if norms:
            self.recorder.pending.norm_names = tuple(f"{key}.{i}" for i in range(len(norms)))
            self.recorder.pending.norm_values = norms
        self.recorder.after_update(
            key, Update(optimizer=f"optimizer {key}", count=0, learning_rates=(0.1,), location=None)
        )

    @property
    def steps(self) -> list[tuple[int, list[str], list[float]]]:
        """Each record's number, optimizers and losses."""
        return [
            (
                record.step,
                [update.optimizer.removeprefix("optimizer ") for update in record.updates],
                [scalar.value for scalar in record.scalars_of("loss")],
            )
            for record in self.records
        ]


@pytest.fixture
def training() -> Training:
    return Training()


def test_a_step_is_closed_when_its_optimizer_steps_again(training: Training) -> None:
    training.update(CRITIC, 1.0)
    assert training.steps == []  # what a metric logs after the update still belongs to it
    training.update(CRITIC, 2.0)
    assert training.steps == [(0, ["1"], [1.0])]
    training.recorder.close_rest()
    assert training.steps == [(0, ["1"], [1.0]), (1, ["1"], [2.0])]
    assert training.recorder.num_steps == 2


def test_two_optimizers_that_alternate_share_a_step(training: Training) -> None:
    for i in range(3):
        training.update(CRITIC, float(i))
        training.update(GENERATOR, i + 0.5)
    training.recorder.close_rest()
    assert training.steps == [(i, ["1", "2"], [i, i + 0.5]) for i in range(3)]


def test_with_several_critic_updates_the_generators_goes_with_the_last(training: Training) -> None:
    for _ in range(2):
        for _ in range(3):
            training.update(CRITIC, 1.0)
        training.update(GENERATOR, 2.0)
    training.recorder.close_rest()
    assert [updates for _, updates, _ in training.steps] == [["1"], ["1"], ["1", "2"], ["1"], ["1"], ["1", "2"]]
    assert [step for step, _, _ in training.steps] == list(range(6))


def test_gradient_norms_of_all_optimizers_of_a_step_are_kept_side_by_side(training: Training) -> None:
    training.update(CRITIC, norms=(1.0, 2.0))
    training.update(GENERATOR, norms=(3.0,))
    training.recorder.close()
    (record,) = training.records
    assert record.gradient_norms is not None
    assert record.gradient_norms.names == ("1.0", "1.1", "2.0")
    assert record.gradient_norms.values == (1.0, 2.0, 3.0)


def test_names_are_one_object_for_all_steps(training: Training) -> None:
    for _ in range(3):
        training.update(CRITIC, norms=(1.0, 2.0))
    first, second = (record.gradient_norms for record in training.records)
    assert first is not None
    assert second is not None
    assert first.names is second.names


def test_accumulated_micro_steps_are_losses_of_one_step(training: Training) -> None:
    training.update(CRITIC, 1.0, 2.0, 3.0)
    training.update(CRITIC, 4.0)
    (record,) = training.records
    assert [(scalar.value, scalar.micro_step) for scalar in record.scalars_of("loss")] == [
        (1.0, 0),
        (2.0, 1),
        (3.0, 2),
    ]


def test_validation_and_the_end_of_the_loader_close_the_step_and_do_so_once(training: Training) -> None:
    training.update(CRITIC, 1.0)
    training.recorder.close()
    training.recorder.close()
    assert training.steps == [(0, ["1"], [1.0])]
    training.update(CRITIC, 2.0)
    training.recorder.close()
    assert [step for step, _, _ in training.steps] == [0, 1]


def test_a_loss_between_two_optimizers_belongs_to_the_step_they_share(training: Training) -> None:
    training.update(CRITIC, 1.0)
    training.recorder.close()  # validation
    training.update(GENERATOR, 2.0)  # and so on with the other one
    training.update(CRITIC, 3.0)
    training.recorder.close_rest()
    assert training.steps == [(0, ["1"], [1.0]), (1, ["2", "1"], [2.0, 3.0])]


def test_an_update_that_a_scaler_skipped_is_no_step_and_leaves_no_norms(training: Training) -> None:
    training.recorder.loss("train.py:6", 1.0)
    training.recorder.backward()
    training.recorder.before_update(CRITIC)
    training.recorder.pending.norm_names, training.recorder.pending.norm_values = ("1.0",), (float("inf"),)
    training.recorder.update_skipped("GradScaler")
    training.update(CRITIC, 2.0)
    training.recorder.close_rest()
    (record,) = training.records
    assert record.gradient_norms is None
    assert [(event.kind, event.data) for event in record.events] == [("update_skipped", {"by": "GradScaler"})]


def test_a_withheld_update_is_delivered_before_it_is_made(training: Training) -> None:
    training.update(CRITIC, 1.0)
    training.recorder.loss("train.py:6", 2.0)
    training.recorder.event("screen", num_bad=1)
    training.recorder.close_withheld()
    assert training.steps == [(0, ["1"], [1.0]), (1, [], [2.0])]
    assert [event.kind for event in training.records[1].events] == ["screen"]
    training.recorder.close_rest()
    assert len(training.records) == 2  # nothing is told twice


def test_at_the_end_only_what_says_something_is_delivered(training: Training) -> None:
    training.update(CRITIC, 1.0)
    training.recorder.event("phase", "eval")
    training.recorder.close_rest()
    assert len(training.records) == 1
    training.recorder.event("output", "model")
    training.recorder.close_rest()
    assert [event.kind for event in training.records[-1].events] == ["phase", "output"]


def test_coverage_counts_what_was_seen(training: Training) -> None:
    training.update(CRITIC, 1.0, 2.0)
    training.update(GENERATOR, 3.0)
    training.recorder.loss("other.py:1", 1.0)
    training.recorder.close()
    coverage = training.recorder.coverage()
    assert (coverage.steps, coverage.losses, coverage.backwards, coverage.optimizers) == (1, 2, 3, 2)
