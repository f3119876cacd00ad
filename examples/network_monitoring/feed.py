"""Replays the packets as files landing at each site, faster than recorded, and closes every window.

    python examples/network_monitoring/feed.py [PROJECT]

lands ten minutes of packets in the project's `landing/` (default: this folder's) within 75 seconds.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
from truth import SITES, Traffic, demo_traffic

SPEED = 8.0
"""Trace seconds per second."""
FLUSH_S = 3600
"""One packet this long after the last closes all windows before it; its own stays open, so it is never
counted.
"""


class Feeder(threading.Thread):
    """Writes one file per site and second of real time; `speed` infinite writes everything at once."""

    def __init__(self, traffic: Traffic, landing: Path, speed: float = SPEED) -> None:
        super().__init__(daemon=True)
        self._traffic = traffic
        self._landing = landing
        self._speed = speed
        self._halt = threading.Event()
        self.at_s = 0.0
        """Seconds of the trace written so far."""
        for site in SITES:
            (landing / site).mkdir(parents=True, exist_ok=True)

    def run(self) -> None:
        step_us = 8_000_000
        first = int(self._traffic.at_us[0]) // step_us * step_us
        last = int(self._traffic.at_us[-1])
        for number, begin in enumerate(range(first, last + 1, step_us)):
            inside = (self._traffic.at_us >= begin) & (self._traffic.at_us < begin + step_us)
            for part in range(len(SITES)):
                self._write(part, f"{number:05d}", self._traffic.of(inside & (self._traffic.part == part)))
            self.at_s = (begin + step_us - first) / 1e6
            if self._halt.wait(step_us / 1e6 / self._speed):
                return
        self.close("99999")

    def close(self, name: str) -> None:
        """Land the packet that closes all windows, at every site; once more changes no result."""
        last = int(self._traffic.at_us[-1])
        one = self._traffic.of(np.arange(self._traffic.at_us.size) == 0)
        at_us = one.at_us * 0 + last + FLUSH_S * 1_000_000
        for part in range(len(SITES)):
            self._write(part, name, Traffic(at_us, one.source, one.destination, one.size_bytes, one.part))

    def hurry(self) -> None:
        """Write what is left at once."""
        self._speed = float("inf")

    def halt(self) -> None:
        self._halt.set()

    def _write(self, part: int, name: str, traffic: Traffic) -> None:
        """Under a hidden name first, so that no reader ever sees half a file."""
        table = pyarrow.table(
            {
                "at": pyarrow.array(traffic.at_us, pyarrow.timestamp("us", tz="UTC")),
                "source": traffic.source,
                "destination": traffic.destination,
                "size_bytes": traffic.size_bytes,
            }
        )
        hidden = self._landing / SITES[part] / f".{name}"
        pyarrow.parquet.write_table(table, hidden)
        os.replace(hidden, hidden.with_name(f"{name}.parquet"))


def feed_everything(traffic: Traffic, landing: Path) -> None:
    """The whole trace at once: a backlog."""
    feeder = Feeder(traffic, landing, speed=float("inf"))
    feeder.run()


if __name__ == "__main__":
    project = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    Feeder(demo_traffic(), project / "landing").run()
