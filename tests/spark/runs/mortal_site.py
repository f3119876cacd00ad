"""A site that can die while the server behind it runs on."""

from __future__ import annotations

from pathlib import Path

from mooring.errors import EngineError


class Mortal:
    """A process behind a site that can be killed, and stays dead; its queries run on, cut off, behind the
    fence.
    """

    note, log_file = "mortal", Path("server.log")

    def __init__(self) -> None:
        self.dead = False

    def is_alive(self) -> bool:
        return not self.dead

    def usage(self) -> None: ...
    def limit_cores(self) -> None: ...
    def hold_to_capacity(self) -> None: ...
    def stop(self) -> None: ...

    def start(self) -> None:
        raise EngineError("it stays dead")
