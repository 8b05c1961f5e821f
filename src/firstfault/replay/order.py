# SPDX-License-Identifier: Apache-2.0
"""What a parent orders from its child (look at this step) and what comes back. Runs in both; no framework.

The order travels in the environment, the answer in a file inside the child's own folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from firstfault.records.encoding import dumps
from firstfault.records.step import Json

VARIABLE = "FIRSTFAULT_MICROSCOPE"
_ANSWER = "answer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroscopeOrder:
    """Run the script again in the sandbox, and put this step under the microscope."""

    step: int  #: completed updates before the step to look at
    folder: Path  #: the child's own: the only place it may write

    @property
    def answer_file(self) -> Path:
        return self.folder / _ANSWER

    def to_environment(self) -> dict[str, str]:
        return {VARIABLE: f"{self.step}:{self.answer_file}"}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> MicroscopeOrder | None:
        """The order this process was started with, or None in an ordinary run."""
        text = (os.environ if environment is None else environment).get(VARIABLE)
        if not text:
            return None
        step, _, file = text.partition(":")
        return cls(step=int(step), folder=Path(file).parent)

    def write_answer(self, answer: Mapping[str, Json]) -> None:
        """Leaves the answer for the parent, whole or not at all."""
        unfinished = self.answer_file.with_suffix(".unfinished")
        unfinished.write_text(dumps(answer), encoding="utf-8")
        os.replace(unfinished, self.answer_file)

    def read_answer(self) -> dict[str, Json] | None:
        """The answer, or None while there is none."""
        try:
            answer: dict[str, Json] = json.loads(self.answer_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return answer
