"""A flood on one sub-stream, and who answers it: nothing may be proposed before, something must be during."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
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


class Mover(threading.Thread):
    """Watches what the running pipeline proposes and, when it proposes moves, has it carry them out."""

    def __init__(self, folder: Path, feeder: Feeder) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._feeder = feeder
        self.over = threading.Event()
        self.early: list[Any] = []
        """Proposals made before the flood began."""
        self.lowest_headroom: float | None = None
        self.applied: dict[str, Any] | None = None
        self.said = ""

    def run(self) -> None:
        while not self.over.wait(0.5):
            proposal = self._proposal()
            if proposal is None:
                continue
            room = proposal["headroom"]
            if room is not None:
                self.lowest_headroom = min(room, self.lowest_headroom or room)
            if not proposal["moves"]:
                continue
            if self._feeder.at_s < FLOOD.from_s:
                self.early.append(proposal)
            elif self.applied is None:
                self._apply()

    def _proposal(self) -> dict[str, Any] | None:
        try:
            status = json.loads((self._folder / ".mooring" / "status.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        proposal: dict[str, Any] | None = status.get("proposal")
        return proposal

    def _apply(self) -> None:
        command = [sys.executable, "-m", "mooring", "moves", str(self._folder), "--apply", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and (answer := json.loads(done.stdout))["applied"] is not None:
            self.applied = answer
        self.said = done.stderr

    def verdict(self) -> tuple[bool, list[str]]:
        """Whether all went as it should, and the story in lines."""
        if self.early:
            return False, [f"moves were proposed before the flood: {self.early[0]}"]
        room = "not measured" if self.lowest_headroom is None else f"x {self.lowest_headroom:.2f}"
        if self.applied is None:
            return False, [f"lowest headroom {room}; no move was applied {self.said}".strip()]
        steps = self.applied["applied"]["steps"]
        return True, [
            f"a flood on {SITES[FLOOD.part]}'s packets took the headroom down to {room}; "
            "nothing was proposed before it",
            *(
                f"moved {step['fragment']} from {step['from']} to {step['to']} while it ran, "
                f"pause {step['pause_s']:.1f} s"
                for step in steps
            ),
        ]
