# SPDX-License-Identifier: Apache-2.0
"""The diagnosis of a recorded run, from its directory; loads no Arrow. Runs outside training."""

from __future__ import annotations

import dataclasses
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
    status, unread_status = read_status(layout, run, time.time())
    findings, unread_findings = read_findings(layout)
    unread = [f"{entry.file}, which cannot be read" for entry in (*unread_status, *unread_findings)]
    status = dataclasses.replace(status, warnings=(*status.warnings, *unread))
    return RecordedDiagnosis(diagnosis=diagnose(findings, status, run.id), run=run, status=status, path=directory)
