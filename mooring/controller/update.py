"""An update of a running session: fragments begin when their inputs are complete, and end by themselves.

The session looks after what runs as it always does: a lost site's fragments go elsewhere, one that fails is
tried again. The update reports what ended and what is next, and when it is over: all have ended, or none of
the rest can go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mooring.contracts.engine import Amount, UpdatingEngine
from mooring.controller.recovery import RecoveryOptions
from mooring.controller.session import RunSession, SessionOptions
from mooring.errors import OvertakenError, described
from mooring.model.deployment.update_order import UpdateOrder

UPDATE_PACE = SessionOptions(look_s=1.0, recovery=RecoveryOptions(tries=3))
"""An update is short, and somebody waits for it; Spark's own gives up a flow after three failures too."""
PATIENCE_S = 120.0
"""Seconds that an update waits for a fragment that cannot run: its site is lost, the disk is full."""
_ASKING_SHARE = 0.1
"""Of the time at most that goes into asking fragments whether they have ended."""


@dataclass
class Update:
    session: RunSession
    engine: UpdatingEngine
    order: UpdateOrder
    ended_s: dict[str, float] = field(default_factory=dict)
    """Fragment -> when it reached the end, by the session's clock."""
    _left: dict[str, str] = field(default_factory=dict)
    """Fragments that have ended though something of their inputs waits -> what that is."""
    _begun_s: dict[str, float] = field(default_factory=dict)
    _waits_since_s: dict[str, float] = field(default_factory=dict)
    _next_ask_s: float = 0.0
    _stuck: bool = False
    _fails_since_s: float | None = None

    def __post_init__(self) -> None:
        """The fragments that nothing is waited for have been started by the session."""
        now_s = self.session.clock.monotonic_s()
        self._begun_s = dict.fromkeys(self.order.ready(begun=()), now_s)
        self.session.chores["carrying on the update"] = self.step

    def step(self) -> None:
        """Take in what has ended, and let begin what may. An update that can do neither for long is over."""
        try:
            self._step()
        except Exception:
            now_s = self._now_s()
            self._fails_since_s = now_s if self._fails_since_s is None else self._fails_since_s
            self._stuck |= now_s - self._fails_since_s >= PATIENCE_S
            raise
        self._fails_since_s = None

    def _step(self) -> None:
        asked_s = self._now_s()
        if asked_s < self._next_ask_s:
            return
        ended = self.engine.reached_end()
        now_s = self._now_s()
        self._next_ask_s = now_s + (now_s - asked_s) / _ASKING_SHARE
        for name in ended:
            self.session.supervisor.recovery.ended(name)
            self.ended_s[name] = now_s
            if why := self._unread(name):
                self._left[name] = why
        self._begin_ready(now_s)
        left = self.order.unreached(self.ended_s)
        self._stuck = not any(self._may_go_on(name, now_s) for name in left)

    @property
    def is_over(self) -> bool:
        """Whether all has ended, or nothing is left that could go on."""
        return self._stuck or not self.order.unreached(self.ended_s)

    def unreached(self) -> dict[str, str]:
        """Fragment -> why it is not up to date: it has not ended, or has left something."""
        troubles = self.session.state.fragment_troubles()
        found = dict(self._left)
        for name in self.order.unreached(self.ended_s):
            awaited = self.order.awaited(name, self.ended_s)
            behind = f"waits for {', '.join(awaited)}" if awaited else "stopped before its end"
            found[name] = troubles.get(name, behind)
        return found

    def as_json(self) -> dict[str, Any]:
        """What every fragment of the update did, for status and report."""
        amounts, unreached, sites = self.engine.amounts(), self.unreached(), self.session.state.where
        fragments = {}
        for name in self.order.chosen:
            amount = amounts.get(name, Amount(0, 0, 0))
            fragments[name] = {
                "table": self.order.writes.get(name, name),
                "site": sites[name],
                "state": self._state_of(name),
                "why": unreached.get(name, ""),
                "rows_read": amount.rows_read,
                "rows_written": amount.rows_written,
                "batches": amount.batches,
                "seconds": self._seconds(name),
            }
        return {"done": not unreached, "fragments": fragments}

    def _begin_ready(self, now_s: float) -> None:
        ready = self.order.ready(self._begun_s, self.ended_s)
        if not ready:
            return
        lost = self.engine.lost_channels()
        held = {user for channel in lost for user in self.engine.users_of(channel)}
        for name in ready:
            if name not in held:
                self._begun_s[name] = now_s
                self.session.wake([name])

    def _may_go_on(self, name: str, now_s: float) -> bool:
        state = self.session.state.status[name].state
        if state != "waiting":
            self._waits_since_s.pop(name, None)
            return state == "running"
        return now_s - self._waits_since_s.setdefault(name, now_s) < PATIENCE_S

    def _unread(self, name: str) -> str:
        try:
            return self.engine.unread(name)
        except OvertakenError:
            raise
        except Exception as failure:  # it has ended all the same
            return f"it is unknown whether it has read all input: {described(failure)}"

    def _state_of(self, name: str) -> str:
        if name in self._left:
            return "behind"
        return "done" if name in self.ended_s else self.session.state.status[name].state

    def _seconds(self, name: str) -> float | None:
        if name not in self.ended_s:
            return None
        return round(self.ended_s[name] - self._begun_s[name], 3)

    def _now_s(self) -> float:
        return self.session.clock.monotonic_s()
