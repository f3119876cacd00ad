"""Says that loops are being compiled, which happens at their first use and takes up to a minute."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from mooring.cli.output.terminal import Terminal

NOTE = "compiling loops for their first use here: once per installation, up to a minute on a busy machine"


@contextlib.contextmanager
def compiling_noted(terminal: Terminal) -> Iterator[None]:
    """Verbs that compile have loaded numba by now; the others need not wait for it."""
    events: Any = sys.modules.get("numba.core.event")
    if events is None:
        yield
        return
    noted = False

    def on_start(listener: object, event: object) -> None:
        nonlocal noted
        if not noted:
            noted = True
            terminal.note(NOTE)

    members = {"on_start": on_start, "on_end": lambda listener, event: None}
    with events.install_listener("numba:compile", type("_Noting", (events.Listener,), members)()):
        yield
