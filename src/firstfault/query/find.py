# SPDX-License-Identifier: Apache-2.0
"""Which run is meant: `last`, an id, the beginning of one, or a path. Runs anywhere; loads no Arrow."""

from __future__ import annotations

from pathlib import Path

from firstfault.errors import RunNotFoundError
from firstfault.settings import Settings
from firstfault.store.layout import RunLayout, run_layouts

_SHOWN = 5
#: characters of date and time in an id
_MOMENT = 15


def find_run(name: str | Path = "last", home: Path | None = None) -> Path:
    """The directory of the run that `name` means.

    Args:
        name: `last`; an id or the beginning of one, `<project>/` before it or not; the path of a run directory.
        home: folder that holds the runs; that of the settings if None.

    Raises:
        RunNotFoundError: no run is meant, or more than one.
    """
    path = Path(name)
    if RunLayout(path).run_file.exists():
        return path
    home = Settings.from_environment().home if home is None else Path(home)
    layouts = newest_first(home)
    if not layouts:
        raise RunNotFoundError(
            f"there is no run {name}: {home.absolute()} holds none; make one with `firstfault run train.py`, or "
            "name another folder by FIRSTFAULT_HOME"
        )
    if str(name) == "last":
        return layouts[0].path
    found = _answering_to(str(name), layouts)
    if len(found) == 1:
        return found[0].path
    names = [f"{layout.path.parent.name}/{layout.path.name}" for layout in (found or layouts)]
    listed = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    if found:
        raise RunNotFoundError(f"{name} could be {len(names)} runs: {listed}; give more of the id")
    raise RunNotFoundError(f"there is no run {name} in {home.absolute()}, which holds {listed}")


def newest_first(home: Path) -> list[RunLayout]:
    """All runs of all projects, by the date and time in their ids, then by when their files were made."""
    return sorted(run_layouts(home), key=_age, reverse=True)


def _age(layout: RunLayout) -> tuple[str, int, str]:
    try:
        made = layout.run_file.stat().st_mtime_ns
    except OSError:
        made = 0
    return layout.path.name[:_MOMENT], made, layout.path.name


def _answering_to(name: str, layouts: list[RunLayout]) -> list[RunLayout]:
    project, _, run_id = name.rpartition("/")
    if project:
        layouts = [layout for layout in layouts if layout.path.parent.name == project]
    exact = [layout for layout in layouts if layout.path.name == run_id]
    return exact or [layout for layout in layouts if run_id and layout.path.name.startswith(run_id)]
