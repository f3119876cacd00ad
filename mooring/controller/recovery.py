"""What to start again, where and when, after a site was lost or a fragment failed.

It decides and never acts: a supervisor says what happened, and takes what there is to report and what is due.
A fragment whose site is lost goes where the policy puts it, at once; one that may run nowhere else waits for
its site. A site that is kept empty on request receives nothing either, but what still runs there goes on
until it is moved. A fragment that fails by itself is tried again after a pause that doubles, and after
`tries` failures without a committed batch in between it is left alone and reported. What was stopped on
purpose is held and not touched. What has nothing to do, because its turn has not come or it has read to the
end, is idle until it is released.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from mooring.controller.run_state import FragmentStatus, RunState, State
from mooring.errors import OvertakenError, described
from mooring.model.placement.placement import FragmentSites

Event = Literal["site lost", "failed", "failed too often", "held", "released", "started", "ended"]
TRANSITIONS: Mapping[tuple[State, Event], State] = {
    ("running", "site lost"): "waiting",
    ("waiting", "site lost"): "waiting",
    ("running", "failed"): "waiting",
    ("waiting", "failed"): "waiting",
    ("running", "failed too often"): "given up",
    ("waiting", "failed too often"): "given up",
    ("running", "held"): "held",
    ("waiting", "held"): "held",
    ("held", "held"): "held",
    ("given up", "held"): "held",
    ("held", "released"): "waiting",
    ("idle", "released"): "waiting",
    ("running", "ended"): "idle",
    ("running", "started"): "running",
    ("waiting", "started"): "running",
    ("held", "started"): "running",
    ("given up", "started"): "running",
}
"""What becomes of a fragment; an event that has no entry for its state changes nothing. A fragment that waits
is started when it is due and its site is not lost.
"""

AT_ONCE = float("-inf")
JOINS = "it joins the run and has not started yet"
"""Why a site counts as lost that was never there before."""
Replacement = Callable[[FragmentSites, Collection[str]], FragmentSites]
"""(where fragments are, lost sites) -> where they go, with as few at lost sites as is allowed."""


@dataclass(frozen=True)
class RecoveryOptions:
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    tries: int = 8
    """Failures in a row, without a batch committed in between, after which a fragment is given up."""
    most_at_once: int = 2
    """Fragments started in one go; the others follow, so that a lost site's do not flood those left."""
    flapping_s: float = 600.0
    """A site that was lost twice within this long is held back when it returns..."""
    first_hold_s: float = 10.0
    """... for so long, and twice as long after each further loss, ..."""
    longest_hold_s: float = 600.0
    """... but no longer than this."""


@dataclass(frozen=True)
class Start:
    """An order: start this fragment there."""

    fragment: str
    site: str


@dataclass
class _Tries:
    due_s: float = AT_ONCE
    failures: int = 0


@dataclass
class Recovery:
    """One per run: it writes where fragments belong, how they are, and which sites are lost.

    Times are seconds of any clock that only goes forward.
    """

    state: RunState
    choose: Replacement
    options: RecoveryOptions = field(default_factory=RecoveryOptions)
    _said: list[str] = field(default_factory=list)
    _strands: bool = False
    """Whether something may have no site that the policy was not asked for."""
    _tries: dict[str, _Tries] = field(default_factory=dict)

    def begin(self, sites: FragmentSites, idle: Collection[str] = ()) -> None:
        """Everything runs at its site, but for what is idle at first, or belongs to a site that is kept
        empty.
        """
        self.state.where = FragmentSites(dict(sites))
        self.state.status = {name: self._at_first(name, site, idle) for name, site in sites.items()}
        self._tries = {name: _Tries() for name in sites}

    def _at_first(self, name: str, site: str, idle: Collection[str]) -> FragmentStatus:
        if name in idle:
            return FragmentStatus("idle")
        if site in self.state.drained:
            return FragmentStatus("waiting", self.state.why_drained(site))
        return FragmentStatus("running")

    # What happened

    def site_emptied(self, site: str) -> None:
        """What may run nowhere else was stopped there: it waits until the site is used again."""
        why = self.state.why_drained(site) if site in self.state.drained else "its site was emptied"
        for name in self._at(site):
            if self._happened(name, "site lost", why):
                self._tries[name].due_s = AT_ONCE

    def site_lost(self, site: str, why: str, now_s: float) -> None:
        """Everything at the site stopped, or can no longer be asked to stop."""
        if site in self.state.lost:
            return
        self.close(site, why)
        self._said.append(f"the site {site} is lost: {why}")
        for name in self._at(site):
            if self._happened(name, "site lost", f"its site {site} is lost"):
                self._tries[name].due_s = now_s
        self._strands = True

    def site_back(self, site: str, now_s: float) -> None:
        why = self.state.lost.get(site)
        if why is None:
            return
        self.state.lost = {name: why for name, why in self.state.lost.items() if name != site}
        back = "has started and is used from now on" if why == JOINS else "is back"
        self._said.append(f"the site {site} {back}")
        for name in self._at(site):
            if self.state_of(name) == "waiting":
                self._tries[name].due_s = now_s
        self._strands = True

    def failed(self, fragment: str, why: str, now_s: float, *, passing: bool = False) -> None:
        """It ended by itself, or could not be started. `passing`: for a reason outside it that somebody will
        remove, such as a full disk, so that it is never given up.
        """
        found, site = self._tries[fragment], self.state.where[fragment]
        too_often = found.failures + 1 >= self.options.tries and not passing
        if not self._happened(fragment, "failed too often" if too_often else "failed", why):
            return
        found.failures += 1
        if too_often:
            times = f"{found.failures} times in a row"
            self._said.append(f"{fragment} failed {times} and is not restarted: {why}")
            return
        pause_s = min(
            self.options.first_pause_s * 2.0 ** min(found.failures - 1, 60), self.options.longest_pause_s
        )
        found.due_s = now_s + pause_s
        self._said.append(f"{fragment} failed at {site}: {why}; next try in {pause_s:g} s")
        if site in self.state.drained:
            self._strands = True

    def progressed(self, fragment: str) -> None:
        """It has committed a batch since it was started."""
        self._tries[fragment].failures = 0

    def hold(self, fragment: str, why: str) -> None:
        """Stopped on purpose: nothing starts it until it is released."""
        self._happened(fragment, "held")
        self._set(fragment, replace(self.state.status[fragment], why=why))

    def release(self, fragment: str, now_s: float, site: str | None = None) -> None:
        """Whatever held it is over, or its turn has come, and it does not run: start it, at its site or the
        one given.
        """
        if self._happened(fragment, "released", "held until now"):
            if site is not None:
                self._send(fragment, site)
            self._tries[fragment].due_s = now_s
            self._strands = True

    def ended(self, fragment: str) -> None:
        """It has read to the end of what there was, as it should."""
        self._happened(fragment, "ended")

    def started(self, fragment: str, site: str) -> None:
        """It runs there now, by our order or by a move."""
        self._happened(fragment, "started")
        self._set(fragment, replace(self.state.status[fragment], why=""))
        self._send(fragment, site)

    # What to do

    def due(self, now_s: float) -> list[Start]:
        """Fragments to start now. One whose site is lost, or kept empty, waits for the site."""
        return [
            Start(name, site)
            for name, site in self.state.where.items()
            if self.state_of(name) == "waiting"
            and self._tries[name].due_s <= now_s
            and not self.state.is_closed(site)
        ]

    def state_of(self, fragment: str) -> State:
        return self.state.status[fragment].state

    def close(self, site: str, why: str) -> None:
        """It cannot be used until it is back."""
        self.state.lost = {**self.state.lost, site: why}

    def _at(self, site: str) -> list[str]:
        return [name for name, at in self.state.where.items() if at == site]

    def _happened(self, name: str, event: Event, why: str | None = None) -> bool:
        """Follow the table; False where the event changes nothing."""
        status = self.state.status[name]
        reached = TRANSITIONS.get((status.state, event))
        if reached is not None:
            self._set(name, FragmentStatus(reached, status.why if why is None else why))
        return reached is not None

    def _set(self, name: str, status: FragmentStatus) -> None:
        self.state.status = {**self.state.status, name: status}

    def _send(self, name: str, site: str) -> None:
        self.state.where = FragmentSites({**self.state.where, name: site})

    def said(self) -> list[str]:
        """What happened and was decided since the last call, in words."""
        said, self._said = self._said, []
        return said

    def place_stranded(self, now_s: float) -> None:
        """Ask the policy for sites for the fragments that wait at lost ones, or at those kept empty, if
        something happened since that may have left one without a site.
        """
        if not self._strands:
            return
        self._strands, where = False, self.state.where
        waiting = [name for name in where if self.state_of(name) == "waiting"]
        stranded = [name for name in waiting if self.state.is_closed(where[name])]
        if not stranded:
            return
        try:
            chosen = self.choose(where, {*self.state.lost, *self.state.drained})
        except OvertakenError:
            raise
        except Exception as failure:  # a policy may raise anything; what runs goes on
            self._said.append(f"{', '.join(stranded)} wait for their site: {described(failure)}")
            return
        for name in stranded:
            at = where[name]
            to = chosen.get(name, at)
            if to == at or self.state.is_closed(to):
                self._said.append(f"{name} waits for its site {at}")
            else:
                self._said.append(f"{name} goes from {at} to {to}")
                self._send(name, to)
                self._tries[name].due_s = now_s
