# SPDX-License-Identifier: Apache-2.0
"""`firstfault show`, on a run written by the real writer."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from firstfault.cli.main import cli


def _show(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["show", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.usefixtures("recorded")
class TestShow:
    def test_it_draws_facts_findings_series_curves_and_histograms(self) -> None:
        text = _show()
        for expected in (
            "20261201-142512-abcd",
            "steps 0 to 12",
            "non-finite gradient, step 12, backward  train.py:4",
            "loss/train.py:8",
            "gradient norm of all 2 parameters",
            "histograms   step 10, by sign and power of two",
        ):
            assert expected in text

    def test_values_that_are_no_numbers_are_marked_and_not_dropped(self) -> None:
        text = _show("--kind", "loss")
        assert "not finite from step 12" in text
        (marks,) = [line for line in text.splitlines() if line.startswith("      nan")]
        assert marks.endswith("×")

    def test_a_step_is_shown_with_what_was_measured_in_it(self) -> None:
        text = _show("--step", "10")
        assert "epoch 1, batch 0" in text
        assert "update 10 by Adam, learning rate 0.001, train.py:9" in text
        assert "weight/encoder.weight" in text

    def test_series_are_chosen_by_an_expression(self) -> None:
        text = _show("--series", "gradient/.*bias")
        assert "gradient/encoder.bias (l2)" in text
        assert "weight/encoder.weight" not in text

    def test_nothing_is_wider_than_the_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for width in (60, 80):
            monkeypatch.setenv("COLUMNS", str(width))
            assert max(len(line) for line in _show().splitlines()) <= width


@pytest.mark.usefixtures("recorded")
def test_a_step_without_record_is_one_sentence() -> None:
    result = CliRunner().invoke(cli, ["show", "--step", "99"])
    assert result.exit_code == 2
    assert result.stderr == "error: the run has no record of step 99; it has 0 to 12\n"


def test_without_any_run_it_says_how_to_make_one(home: Path) -> None:
    result = CliRunner().invoke(cli, ["show"])
    assert result.exit_code == 1
    assert str(home) in result.stderr
    assert "firstfault run train.py" in result.stderr
