"""How long each part of an overlay's reaction took, by the traces of its agents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

TraceStep = Mapping[str, Any]
"""A line of a trace, as plain data."""


def steps_of(agents: Path, since_ms: float) -> list[TraceStep]:
    """What the machines of all sites did, in the order of time."""
    found = []
    for trace in sorted(agents.glob("*/trace.jsonl*")):
        for line in trace.read_text(errors="replace").splitlines():
            if '"overlay"' in line and line.endswith("}"):
                step = json.loads(line)
                if step["time_ms"] >= since_ms:
                    found.append(step)
    return sorted(found, key=lambda step: float(step["time_ms"]))


def sent(step: TraceStep, kind: str) -> list[dict[str, Any]]:
    """Messages of a kind that a step has sent."""
    messages = [effect.get("message") or {} for effect in step["effects"]]
    return [message for message in messages if message.get("type") == kind]


def heard(step: TraceStep) -> dict[str, Any]:
    """The message or the request that a step was made for."""
    return step["event"].get("message") or step["event"].get("request") or {}


def endings(steps: Sequence[TraceStep], begin_ms: float) -> Iterator[str]:
    """What has become of leases, and who found no plan."""
    for step in steps:
        for effect in step["effects"]:
            value = effect.get("value") or {}
            if value.get("type") in ("LeaseEnded", "Unsatisfied"):
                what = value.get("outcome", f"no plan for {value.get('query')}")
                moves = [(m["fragment"], m["to_site"]) for m in (value.get("plan") or {}).get("moves", ())]
                at_s = (step["time_ms"] - begin_ms) / 1e3
                yield f"{at_s:.1f} s, site {step['site']}: {what} {moves} {value['reason']}"


class ReactionTimes:
    """From a trouble to the move that mends it. What did not happen is None, and so is all that follows."""

    def __init__(self, steps: Sequence[TraceStep], begin_ms: float, is_trouble: Callable[[TraceStep], bool]):
        self._steps = steps
        known = next((step for step in steps if is_trouble(step)), None)
        chosen = self._first_after(
            known, lambda s: heard(s).get("type") != "RequestLock" and sent(s, "RequestLock")
        )
        accepted = self._first_after(known, lambda s: heard(s).get("type") == "Accepted")
        id = None if accepted is None else heard(accepted)["id"]
        self.proposed = next((step for step, own in self._proposals() if own["id"] == id), None)
        done = self._first_after(accepted, lambda s: heard(s).get("type") == "Done" and heard(s)["id"] == id)
        chosen_ms = None if chosen is None else _at_ms(chosen) + chosen["took_ms"]
        self.detection_ms = _between(begin_ms, _at_ms(known))
        self.choice_ms = _between(_at_ms(known), chosen_ms)
        self.lease_ms = _between(chosen_ms, _at_ms(self.proposed))
        self.guards_ms = _between(_at_ms(self.proposed), _at_ms(accepted))
        self.move_ms = _between(_at_ms(accepted), _at_ms(done))

    def _first_after(self, start: TraceStep | None, fits: Callable[[TraceStep], object]) -> TraceStep | None:
        if start is None:
            return None
        return next(
            (step for step in self._steps if step["time_ms"] >= start["time_ms"] and fits(step)), None
        )

    def _proposals(self) -> Iterator[tuple[TraceStep, dict[str, Any]]]:
        """A proposal is repeated until it is answered; its first time comes first."""
        for step in self._steps:
            for message in sent(step, "Proposed"):
                yield step, message

    def promised_tuples(self) -> float | None:
        """Fewer under way, as who proposed it reckoned."""
        if self.proposed is None:
            return None
        return float(sent(self.proposed, "Proposed")[0]["promise"]["tuples_saved"])


def _at_ms(step: TraceStep | None) -> float | None:
    return None if step is None else float(step["time_ms"])


def _between(start_ms: float | None, end_ms: float | None) -> float | None:
    return None if start_ms is None or end_ms is None else end_ms - start_ms
