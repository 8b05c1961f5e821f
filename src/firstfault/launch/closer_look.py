# SPDX-License-Identifier: Apache-2.0
"""The rung `child`, from the parent's side: run the script again up to the bad step. Runs outside training.

Taken where running the model's call again did not show the operation: the fault lies in the user's own code of
the loss, or the call could not be repeated. The second run writes into a folder of its own, which is removed.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from firstfault.launch.handover import Beginning
from firstfault.launch.supervise import child_environment
from firstfault.records.encoding import dumps
from firstfault.records.finding import Evidence, Finding
from firstfault.records.step import StepRecord
from firstfault.replay.child import rerun_in_child
from firstfault.rules.numerics import finding_of_screen
from firstfault.settings import Settings
from firstfault.store.documents import read_states
from firstfault.store.layout import RunLayout, write_atomically
from firstfault.store.reader import RunReader

MOST_SECONDS = 60.0  #: of training that is run again
_STARTUP_SECONDS = 30.0
_TELLING = ("operation", "weights_location", "bad_input", "bad_target")


def look_closer(
    directory: Path, command: Sequence[str], settings: Settings, announce: Callable[[str], None]
) -> Finding | None:
    """Say more exactly what went wrong in a run that was stopped, if that is possible and needed.

    Returns:
        The finding that takes the place of the one without an operation; it has been written to the run.
    """
    reader = RunReader(directory)
    finding = next((entry for entry in reader.findings() if _is_vague(entry)), None)
    if finding is None or finding.step is None or not read_states(RunLayout(directory)):
        return None
    records = list(reader.records())
    seconds = sum(record.seconds for record in records[1:])
    if seconds > MOST_SECONDS:
        announce(f"running the script again would take {seconds:.0f} s; the limit is {MOST_SECONDS:.0f} s")
        return None
    announce(f"running the script again up to step {finding.step}, to see which operation it was")
    folder = Path(tempfile.mkdtemp(prefix="ff-"))
    try:
        return _look(directory, reader, records, finding, command, settings, folder, announce)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_vague(finding: Finding) -> bool:
    """Whether a second run could say more: where it was neither an operation, nor data, nor a line to edit."""
    return (
        finding.severity == "fatal"
        and finding.rule.startswith("non_finite_")
        and finding.operation is None
        and finding.samples is None
        and (finding.location is None or finding.location.role == "ran")
    )


def _look(
    directory: Path,
    reader: RunReader,
    records: list[StepRecord],
    finding: Finding,
    command: Sequence[str],
    settings: Settings,
    folder: Path,
    announce: Callable[[str], None],
) -> Finding | None:
    assert finding.step is not None
    beginning = Beginning(hash_seed=str(reader.run.seeds["hash_seed"]), states=read_states(RunLayout(directory)))
    apart = dataclasses.replace(settings, home=folder / "runs", live=False)
    environment = child_environment(command, apart, reader.run.id, quiet=True, again=beginning)
    limit = _STARTUP_SECONDS + 4 * sum(record.seconds for record in records)
    child = rerun_in_child(command, environment, finding.step, limit, folder)
    if child.answer is None:
        announce(f"the second run did not serve: {child.reason}")
        return None
    answer: dict[str, Any] = dict(child.answer)
    reason = answer.get("parted") or _parting(records, answer["losses"])
    if reason or not any(answer["facts"].get(fact) for fact in _TELLING):
        announce(f"the second run did not serve: {reason or 'no operation stood out'}")
        return None
    record = next(record for record in reversed(records) if any(event.kind == "screen" for event in record.events))
    facts = dict(next(event for event in record.events if event.kind == "screen").data)
    closer = finding_of_screen(record, {**facts, **answer["facts"]})
    if closer.rule in settings.ignore:
        return None
    proof = Evidence(quantity="second run, losses equal bit for bit", value=len(answer["losses"]))
    closer = closer.replace(evidence=(*closer.evidence, proof))
    _write(RunLayout(directory), closer)
    return closer


def _parting(records: list[StepRecord], losses: list[str]) -> str:
    """At which step the second run's losses part from the first's; empty if they never do."""
    first = [(record.step, scalar.value.hex()) for record in records for scalar in record.scalars_of("loss")]
    for (step, value), again in zip(first, losses, strict=False):
        if value != again:
            return f"its loss parted at step {step}, so the script is not deterministic: seed what it draws"
    return "" if len(first) == len(losses) else "it made another number of steps"


def _write(layout: RunLayout, finding: Finding) -> None:
    path = layout.finding_file(len(layout.finding_files()) + 1, 0)
    write_atomically(path, dumps(finding, indent=1).encode("utf-8", "backslashreplace"))
