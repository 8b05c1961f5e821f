# SPDX-License-Identifier: Apache-2.0
"""Which run this process is watching: the one thing that firstfault remembers of itself. Runs in training.

`firstfault.log(...)` has no object to ask, and a second `firstfault.init()` must find the first: so the run that is
being watched is kept here, and nowhere else. Only `launch.attach` and `watching` come here.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from firstfault.launch.exit_watcher import ExitWatcher
from firstfault.launch.live_line import LiveLine
from firstfault.records.run import State
from firstfault.records.step import Location
from firstfault.session import Session


class WatchedRun:
    """A session, with what ties it to this process: its exit and its terminal.

    Args:
        is_launched: `firstfault run` began it: it lasts as long as the process, and the parent says the diagnosis.
        quiet: say nothing at its end unless something is wrong.
        after_end: called when the process ends, once the session is closed.
    """

    def __init__(
        self,
        session: Session,
        *,
        is_launched: bool,
        quiet: bool = False,
        after_end: Callable[[WatchedRun], None] | None = None,
    ) -> None:
        self.session = session
        self.is_launched = is_launched
        self.quiet = quiet
        self.process = os.getpid()
        self._after_end = after_end
        self._exit_watcher = ExitWatcher(self._at_exit)
        self._live_line = LiveLine.on_terminal(session) if session.settings.live else None

    def begin(self) -> None:
        """From here on this is the run that the process is watching."""
        self._exit_watcher.install()
        _watched.append(self)
        if self._live_line is not None:
            self._live_line.start()

    def end(self, state: State = "finished", error: str = "", location: Location | None = None) -> None:
        """Close the session, and put the process back as it was."""
        if self in _watched:
            _watched.remove(self)
        self._exit_watcher.remove()
        if self._live_line is not None:
            self._live_line.stop()
        self.session.finish(state, error, location)

    def _at_exit(self, state: State, error: str, location: Location | None) -> None:
        if self.process == os.getpid():
            self.end(state, error, location)
            if self._after_end is not None:
                self._after_end(self)


#: empty, or the one run
_watched: list[WatchedRun] = []


def watched_run() -> WatchedRun | None:
    """The run that this process is watching; None in a fork of it, whose training is another one."""
    if _watched and _watched[0].process != os.getpid():
        _watched.pop().session.firewall.enabled = False  # the hooks came along with the fork: they look away
    return _watched[0] if _watched else None
