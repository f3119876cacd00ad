"""An agent's time: as the wall clock had it when the process began, and from there on never backwards."""

from __future__ import annotations

import time


class AgentClock:
    def __init__(self) -> None:
        self._ahead_ms = time.time() * 1000.0 - time.monotonic() * 1000.0

    def now_ms(self) -> float:
        return self._ahead_ms + time.monotonic() * 1000.0
