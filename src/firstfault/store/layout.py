# SPDX-License-Identifier: Apache-2.0
"""The run directory: the only file that knows its paths. Runs anywhere, in training too.

<home>/.gitignore                                        so that no run is committed by accident
<home>/<project>/<run id>/run.json, status.json, states.json
                          segments/<table>-<worker>-<number>.parquet
                          tail/<worker>.bin
                          findings/<number>.json
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from firstfault.errors import StoreError, UsageError

Table: TypeAlias = Literal["statistics", "scalars", "histograms", "events"]
#: `events` is written last: who sees a step there finds its measurements in the others
TABLES: tuple[Table, ...] = get_args(Table)

_SEGMENT = re.compile(rf"({'|'.join(TABLES)})-(\d+)-(\d+)\.parquet")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_counter = itertools.count()


@dataclass(frozen=True, slots=True)
class RunLayout:
    """Where the parts of one run lie."""

    path: Path  #: the run directory

    @classmethod
    def under(cls, home: Path, project: str, run_id: str) -> RunLayout:
        """The place of a run below the home folder.

        Raises:
            UsageError: the project's name cannot be a folder's name.
        """
        if not project or project.startswith(".") or "/" in project or os.sep in project or "\0" in project:
            raise UsageError(f"project is {project!r}: it names a folder, so it takes no slash and no leading dot")
        return cls(Path(home) / project / run_id)

    @property
    def home(self) -> Path:
        return self.path.parent.parent

    @property
    def run_file(self) -> Path:
        return self.path / "run.json"

    @property
    def status_file(self) -> Path:
        return self.path / "status.json"

    @property
    def states_file(self) -> Path:
        return self.path / "states.json"

    @property
    def segments(self) -> Path:
        return self.path / "segments"

    @property
    def findings(self) -> Path:
        return self.path / "findings"

    def tail_file(self, worker: int) -> Path:
        return self.path / "tail" / f"{worker}.bin"

    def segment_file(self, table: Table, worker: int, number: int) -> Path:
        return self.segments / f"{table}-{worker}-{number:06d}.parquet"

    def finding_file(self, number: int, worker: int) -> Path:
        name = f"{number:04d}" if worker == 0 else f"{number:04d}-{worker}"
        return self.findings / f"{name}.json"

    def make(self) -> None:
        """Makes the folders of the run, and the home's `.gitignore`.

        Raises:
            StoreError: they cannot be made.
        """
        try:
            for folder in (self.segments, self.path / "tail", self.findings):
                folder.mkdir(parents=True, exist_ok=True)
            if not (self.home / ".gitignore").exists():
                write_atomically(self.home / ".gitignore", b"*\n", durable=False)
        except OSError as error:
            raise StoreError(
                f"the run directory {self.path} cannot be made ({error.strerror or error}), so nothing is kept: "
                "set FIRSTFAULT_HOME to a folder that can be written"
            ) from error

    def segment_files(self) -> list[tuple[Path, Table, int, int]]:
        """Every segment there is now: path, table, worker, number."""
        return [
            (self.segments / name, match[1], int(match[2]), int(match[3]))  # type: ignore[misc]  # by the pattern
            for name in _names(self.segments)
            if (match := _SEGMENT.fullmatch(name))
        ]

    def tail_files(self) -> list[tuple[Path, int]]:
        """Every tail there is now: path, worker."""
        names = _names(self.path / "tail")
        return sorted((self.path / "tail" / name, int(name[:-4])) for name in names if name[:-4].isdigit())

    def finding_files(self) -> list[Path]:
        return [self.findings / name for name in _names(self.findings) if name.endswith(".json")]


def new_run_id(now: float | None = None) -> str:
    """Date, time and four random letters, from the system's own source so that no generator of the user moves."""
    letters = "".join(_LETTERS[byte % 26] for byte in os.urandom(4))
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{letters}"


def write_atomically(path: Path, data: bytes | memoryview, *, durable: bool = True) -> None:
    """Writes a file so that a reader, or a kill at any moment, finds all of it or what was there before."""
    # no suffix that a reader looks for
    draft = path.with_name(f".{path.name}.{os.getpid()}-{next(_counter)}.tmp")
    try:
        with open(draft, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def run_layouts(home: Path) -> Iterator[RunLayout]:
    """Every run directory below the home folder, in no order; broken ones too."""
    for project in _names(home):
        if project.startswith("."):
            continue
        for run_id in _names(home / project):
            layout = RunLayout(home / project / run_id)
            if layout.run_file.exists() or layout.status_file.exists():
                yield layout


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
