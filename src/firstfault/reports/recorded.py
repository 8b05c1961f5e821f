# SPDX-License-Identifier: Apache-2.0
"""The diagnosis of a recorded run, from its directory; loads no Arrow. Runs outside training."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from firstfault.diagnosis.verdict import diagnose
from firstfault.records.finding import Diagnosis
from firstfault.records.run import Run, Status
from firstfault.store.documents import read_findings, read_run, read_status
from firstfault.store.layout import RunLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDiagnosis:
    """A diagnosis with the run it is of."""

    diagnosis: Diagnosis
    run: Run
    status: Status
    path: Path  #: the run directory


def load_diagnosis(directory: Path) -> RecordedDiagnosis:
    """What went wrong first in the run of this directory.

    Raises:
        StoreError: it cannot be read.
    """
    layout = RunLayout(directory)
    run = read_run(layout)
    status, _ = read_status(layout, run, time.time())
    findings, _ = read_findings(layout)
    return RecordedDiagnosis(diagnosis=diagnose(findings, status, run.id), run=run, status=status, path=directory)
