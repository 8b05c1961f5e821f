# SPDX-License-Identifier: Apache-2.0
"""How a value is said to a person: the one wording of terminal, page and notebook. Runs outside training."""

from __future__ import annotations

import math
import re
import signal as signals
from collections.abc import Iterable, Iterator, Sequence

from firstfault.records.finding import Finding, WeightsState
from firstfault.records.step import Place

WEIGHTS: dict[WeightsState, str] = {
    "unspoilt": "unspoilt: the bad update was not applied",
    "restored": "restored to what they were before the bad update",
    "spoilt": "spoilt: the bad update was applied, so later checkpoints hold it",
}

#: what a signal usually means to the person whose script it ended
_SIGNALS = {
    "SIGKILL": "killed by SIGKILL (perhaps out of memory)",
    "SIGTERM": "ended by SIGTERM (asked from outside, as a scheduler does)",
    "SIGINT": "interrupted (SIGINT)",
    "SIGHUP": "ended by SIGHUP (its terminal went away)",
    "SIGSEGV": "crashed with SIGSEGV (invalid memory access in native code)",
    "SIGABRT": "aborted with SIGABRT (a failed check in native code)",
    "SIGBUS": "crashed with SIGBUS (perhaps shared memory too small)",
}


def say_rule(rule: str) -> str:
    """`non_finite_gradient` as `non-finite gradient`."""
    return rule.replace("_", " ").replace("non ", "non-")


def say_number(value: float | int | str | bool | None) -> str:
    """At most four significant digits; whole numbers up to a million as they are."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and abs(value) < 10**6:
        return str(value)
    if isinstance(value, int | float):
        return f"{value:.4g}"
    return value


def say_count(number: int, noun: str) -> str:
    """`1 step`, `2 steps`, `2 losses`."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number} {plural}"


def say_seconds(seconds: float) -> str:
    if seconds < 0.01:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def say_place(place: Place) -> str:
    """`epoch 1, batch 19`; nothing of what is not known."""
    parts = []
    if place.epoch is not None:
        parts.append(f"epoch {place.epoch}")
    if place.batch is not None:
        parts.append(f"batch {place.batch}")
    if place.micro_step:
        parts.append(f"micro-step {place.micro_step}")
    return ", ".join(parts)


def say_signal(number: int) -> str:
    """What it means that a script was ended by this signal."""
    try:
        name = signals.Signals(number).name
    except ValueError:
        return f"ended by signal {number}"
    return _SIGNALS.get(name, f"ended by {name}")


def say_error(error: str) -> str:
    """An error as a status holds it; `killed by SIGKILL` with what that usually means."""
    if killed := re.fullmatch(r"killed by (SIG\w+)", error):
        return _SIGNALS.get(killed[1], error)
    return f"the script ended with {error}" if error.startswith("exit code ") else error


def say_samples(samples: Sequence[int], limit: int = 6) -> str:
    """`sample 4 of the batch`, `samples 4, 7 and 9 more of the batch`."""
    shown = ", ".join(str(index) for index in samples[:limit])
    rest = f" and {len(samples) - limit} more" if len(samples) > limit else ""
    return f"sample{'s' if len(samples) > 1 else ''} {shown}{rest} of the batch"


def say_consequences(consequences: Iterable[Finding], limit: int = 4) -> str:
    """One line for all that followed: `+ 5 consequences: non-finite loss (step 44), …`."""
    consequences = tuple(consequences)
    if not consequences:
        return ""
    first_steps: dict[str, int | None] = {}
    for finding in consequences:
        first_steps.setdefault(finding.rule, finding.step)
    said = [
        say_rule(rule) + (f" (step {step})" if step is not None else "")
        for rule, step in list(first_steps.items())[:limit]
    ]
    if len(first_steps) > limit:
        said.append("…")
    return f"+ {say_count(len(consequences), 'consequence')}: {', '.join(said)}"


def split_code(text: str) -> Iterator[tuple[bool, str]]:
    """The lines of a text with whether each is code: indented by four or more, or between fences."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith(("    ", "\t")):
            yield True, line if fenced else line.expandtabs(4)[4:]
        else:
            yield False, line.strip()


def say_share(fraction: float) -> str:
    """`1.2 %`; what cannot be measured yet is `too short to tell`."""
    return f"{fraction * 100:.1f} %" if math.isfinite(fraction) else "too short to tell"
