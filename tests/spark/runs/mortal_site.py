"""A site that can die while the server behind it runs on, and moves that wait until they are let go on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mooring.errors import EngineError
from mooring.spark.engine import moving
from mooring.spark.sites.sites import SiteHandle, SiteHandles

if TYPE_CHECKING:
    import pytest

    from mooring.spark.sites.embedded_site import EmbeddedSite


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


def three_sites(site: EmbeddedSite) -> tuple[SiteHandles, Mortal]:
    """Sites a, b and c that share one warm server; c can die."""
    mortal = Mortal()
    dying: Any = mortal
    handles = [SiteHandle(name, 2.0, site.endpoint, None) for name in "ab"]
    return SiteHandles([*handles, SiteHandle("c", 2.0, site.endpoint, dying)]), mortal


class MoveGate:
    """Moves stop between their fence and their first batch until the gate is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, patience_s: float) -> None:
        self.open, self.arrived = threading.Event(), threading.Event()
        first_batch = moving.first_batch

        def gated(*args: Any, **options: Any) -> str | None:
            self.arrived.set()
            self.open.wait(patience_s)
            return first_batch(*args, **options)

        monkeypatch.setattr(moving, "first_batch", gated)
