# SPDX-License-Identifier: Apache-2.0
"""The JSON contract, and a diagnosis in words."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from firstfault.records.finding import Coverage, Diagnosis, Evidence, FaultLocation, Finding, Overhead
from firstfault.records.run import Run, Status
from firstfault.records.step import Location, Place
from firstfault.reports.diagnosis import build_report, diagnosis_to_json, finding_to_json

_CONTRACT = Path(__file__).parents[2] / "docs" / "json.md"
_FINDING_KEYS = (
    *("rule", "severity", "step", "stage", "place", "module", "operation", "location", "message", "cause", "fix"),
    *("confidence", "weights", "evidence", "rung", "samples", "consequences"),
)
_CODE = "return torch.sqrt((d**2).sum(1))"


def _finding(**changes: Any) -> Finding:
    fields = {"rule": "non_finite_gradient", "severity": "fatal", "step": 37, "stage": "backward"}
    return Finding(**(fields | {"message": "The gradients are NaN."} | changes))


def _diagnosis(
    verdict: Any = "fault", first: Finding | None = None, *others: Finding, **coverage: Any
) -> Diagnosis:
    return Diagnosis(
        run="r",
        verdict=verdict,
        coverage=Coverage(**({"steps": 40, "losses": 1, "backwards": 40, "optimizers": 1} | coverage)),
        first_fault=first,
        findings=(*((first,) if first else ()), *others),
        overhead=Overhead(fraction=0.012, seconds=0.8, first_steps_seconds=0.3),
    )


def _status(**changes: Any) -> Status:
    return Status(**({"state": "finished", "heartbeat": 0.0, "process": 1, "host": "h"} | changes))


class TestContract:
    def test_a_bare_finding_has_every_key(self) -> None:
        data = finding_to_json(_finding())
        assert tuple(data) == _FINDING_KEYS
        assert data["place"] == {"epoch": None, "batch": None, "micro_step": 0}
        assert all(data[key] is None for key in ("module", "operation", "location", "weights", "rung", "samples"))
        assert (data["evidence"], data["consequences"]) == ([], [])

    def test_a_full_finding_is_as_the_contract_has_it(self) -> None:
        data = finding_to_json(
            _finding(
                location=FaultLocation(file="train.py", line=26, code=_CODE, role="edit", function="f"),
                evidence=(Evidence(quantity="norm", value=math.inf, threshold=-math.inf, step=37),),
                samples=(4,),
                consequences=(_finding(step=38),),
            )
        )
        assert data["location"] == {"file": "train.py", "line": 26, "code": _CODE, "role": "edit"}
        assert data["evidence"] == [{"quantity": "norm", "value": "inf", "threshold": "-inf", "step": 37}]
        assert data["samples"] == [4]
        (consequence,) = data["consequences"]
        assert tuple(consequence) == _FINDING_KEYS

    def test_a_diagnosis_has_every_key_and_is_json(self) -> None:
        data = diagnosis_to_json(_diagnosis("clean", not_seen=("the loss",)))
        assert list(data) == ["schema", "run", "verdict", "coverage", "first_fault", "findings", "overhead"]
        assert data["coverage"] == {"steps": 40, "losses": 1, "optimizers": 1, "not_seen": ["the loss"]}
        assert data["first_fault"] is None
        assert json.loads(json.dumps(data, allow_nan=False)) == data

    def test_the_document_names_every_key_and_its_example_is_a_diagnosis(self) -> None:
        text = _CONTRACT.read_text(encoding="utf-8")
        assert all(f"| `{key}` |" in text for key in (*_FINDING_KEYS, *diagnosis_to_json(_diagnosis())))
        example = json.loads(re.findall(r"```json\n(.*?)```", text, re.DOTALL)[-1])
        assert example.keys() == diagnosis_to_json(_diagnosis()).keys()
        assert tuple(example["first_fault"]) == _FINDING_KEYS
        assert example["overhead"].keys() == {field.name for field in dataclasses.fields(Overhead)}


class TestWords:
    def test_the_first_fault_is_told_first_and_its_consequences_in_one_line(self) -> None:
        consequences = (_finding(rule="non_finite_loss", step=38), _finding(rule="non_finite_loss", step=39))
        fault = _finding(consequences=consequences, place=Place(epoch=1, batch=12), weights="unspoilt")
        report = build_report(_diagnosis("fault", fault, *consequences, _finding(rule="dead_units", step=2)))
        assert report.headline == "non-finite gradient, step 37, backward"
        assert report.context == "epoch 1, batch 12"
        assert report.consequences == "+ 2 consequences: non-finite loss (step 38)"
        assert [other.title for other in report.others] == ["dead units, step 2, backward"]
        assert report.weights == "unspoilt: the bad update was not applied"
        assert report.cost == "1.2 % (0.8 s), first steps 0.3 s"

    def test_a_warning_is_told_with_how_to_silence_it(self) -> None:
        warning = _finding(rule="dead_units", severity="warning", confidence=0.7, cause="It is dead.")
        report = build_report(_diagnosis("warning", None, warning))
        assert report.headline.startswith("dead units")
        assert report.silence == "--ignore dead_units"
        assert report.cause == "It is dead. (likely: 70% sure)"
        assert report.others == ()

    def test_clean_says_how_much_was_seen(self) -> None:
        assert build_report(_diagnosis("clean")).headline == "no fault found in 40 steps (1 loss, 1 optimizer)"

    def test_unseen_says_what_is_missing(self) -> None:
        assert build_report(_diagnosis("unseen", steps=0)).headline == "no verdict: no update was seen"
        report = build_report(_diagnosis("unseen", losses=0, steps=0, backwards=0))
        assert report.headline == "no verdict: no loss, no backward and no update was seen"

    def test_failed_says_why_and_where(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text("a = 1\nb = a / 0\n")
        run = Run(id="r", project="p", name="n", started=0, script=None, argv=(), working_directory=str(tmp_path))
        status = _status(
            state="failed",
            error="ZeroDivisionError: division by zero",
            error_location=Location(file="train.py", line=2, code="b = a / 0"),
        )
        report = build_report(_diagnosis("failed"), run, status)
        assert report.headline == "ZeroDivisionError: division by zero"
        assert report.where is not None
        assert [(line.number, line.marked) for line in report.where.code] == [(1, False), (2, True)]

    @pytest.mark.parametrize("told_by", [{"signal": signal.SIGKILL}, {"error": "killed by SIGKILL"}])
    def test_a_kill_is_told_with_what_it_usually_means(self, told_by: dict[str, Any]) -> None:
        number = told_by.get("signal")
        status = _status(state="failed", error=told_by.get("error", ""))
        report = build_report(_diagnosis("failed"), None, status, signal=number)
        assert report.headline == "killed by SIGKILL (perhaps out of memory)"

    def test_an_exit_code_is_told_as_one(self) -> None:
        report = build_report(_diagnosis("failed"), None, _status(state="failed", error="exit code 5"))
        assert report.headline == "the script ended with exit code 5"

    def test_an_error_after_a_fault_is_told_as_the_ending(self) -> None:
        status = _status(state="failed", error="ValueError: x")
        assert build_report(_diagnosis("fault", _finding()), None, status).ending == "ValueError: x"


class TestExcerpt:
    def _lines(self, tmp_path: Path, source: str) -> list[str]:
        (tmp_path / "train.py").write_text(source)
        run = Run(id="r", project="p", name="n", started=0, script=None, argv=(), working_directory=str(tmp_path))
        location = FaultLocation(file="train.py", line=3, code=_CODE)
        report = build_report(_diagnosis("fault", _finding(location=location)), run)
        assert report.where is not None
        return [line.text for line in report.where.code]

    def test_the_line_stands_among_its_neighbours_without_the_margin(self, tmp_path: Path) -> None:
        source = f"def f(d):\n    d = d - 1\n    {_CODE}\n\n"
        assert self._lines(tmp_path, source) == ["d = d - 1", _CODE]

    def test_a_file_that_was_edited_since_shows_the_line_that_ran(self, tmp_path: Path) -> None:
        assert self._lines(tmp_path, "something\nelse\nnow\n") == [_CODE]
