"""A flood on one sub-stream, and what answers it: nothing may be proposed before, something must be during.

What is proposed is applied, until every site is below full.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from feed import Feeder
from truth import SITES, Burst

FLOOD = Burst(from_s=160.0, to_s=480.0, part=2, times=90)
"""Porto's packets come ninety times as often for 320 seconds of the trace, forty of the demo.

By the statistics that ship with the example (statistics.yml) berlin, where they are counted over a sliding
minute, is then asked for half as much again as it can carry. A move is proposed from about fifty times on,
and nothing while all three sub-streams come up to thirty times as often as usual, so neither depends on how
evenly a busy machine delivers them (tests/spark/runs/test_demo.py).
"""


SETTLES_S = 15.0
"""After a list of moves, until its effect is measured."""
MOST_LISTS = 3


class Mover(threading.Thread):
    """Watches what the running pipeline proposes and has it carry that out while the flood lasts."""

    def __init__(self, folder: Path, feeder: Feeder) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._feeder = feeder
        self._next_s = 0.0
        self.over = threading.Event()
        self.early: list[Any] = []
        """Proposals made before the flood began."""
        self.lowest_headroom: float | None = None
        self.steps: list[dict[str, Any]] = []
        """Of all lists that were applied."""
        self.lists = 0
        self.rooms: dict[str, float | None] = {}
        """Headroom of each site, as last measured while the flood lasted and after the last list settled."""
        self.said = ""

    def run(self) -> None:
        while not self.over.wait(0.5):
            self.look(time.monotonic())

    def look(self, now_s: float) -> None:
        status = self._status()
        proposal = status.get("proposal")
        if proposal is None:
            return
        room = proposal["headroom"]
        if room is not None:
            self.lowest_headroom = min(room, self.lowest_headroom or room)
        floods = FLOOD.from_s <= self._feeder.at_s < FLOOD.to_s
        if self.lists and floods and now_s >= self._next_s:
            sites = (status.get("headroom") or {}).get("sites") or {}
            self.rooms = {name: site["factor"] for name, site in sites.items()} or self.rooms
        if not proposal["moves"]:
            return
        if self._feeder.at_s < FLOOD.from_s:
            self.early.append(proposal)
        elif self.lists < MOST_LISTS and now_s >= self._next_s:
            self._apply(now_s)

    def _status(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._folder / ".mooring" / "status.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return found

    def _apply(self, now_s: float) -> None:
        command = [sys.executable, "-m", "mooring", "moves", str(self._folder), "--apply", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and (answer := json.loads(done.stdout))["applied"] is not None:
            self.lists += 1
            self.steps += answer["applied"]["steps"]
            self._next_s = now_s + SETTLES_S
        self.said = done.stderr

    def verdict(self) -> tuple[bool, list[str]]:
        """Whether all went as it should, and the story in three sentences."""
        if self.early:
            return False, [f"moves were proposed before the flood: {self.early[0]}"]
        room = "not measured" if self.lowest_headroom is None else f"x {self.lowest_headroom:.2f}"
        if not self.steps:
            return False, [f"lowest headroom {room}; no move was applied {self.said}".strip()]
        moved = ", ".join(
            f"{step['fragment']} from {step['from']} to {step['to']} (pause {step['pause_s']:.1f} s)"
            for step in self.steps
        )
        return True, [
            f"A flood on {SITES[FLOOD.part]}'s packets took the headroom down to {room}; nothing was "
            "proposed before it.",
            f"The pipeline moved {moved} while it ran.",
            self._ending(),
        ]

    def _ending(self) -> str:
        known = {name: factor for name, factor in self.rooms.items() if factor is not None}
        if not known:
            return "The flood ended before its effect was measured."
        fullest = min(known, key=lambda name: known[name])
        if known[fullest] > 1.0:
            least = f"{fullest} had the least headroom, x {known[fullest]:.2f}"
            return f"Every site was below full after that: {least}."
        return f"Site {fullest} stayed full all the same, with a headroom of x {known[fullest]:.2f}."
