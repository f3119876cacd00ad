"""What to start again, where and when, after a site was lost or a fragment failed.

It decides and never acts: a supervisor says what happened and asks what is due. A fragment whose site is lost
goes where the policy puts it, at once; one that may run nowhere else waits for its site. A site that somebody
left on purpose is no place for anything either, but what still runs there goes on until it is moved. A
fragment that fails by itself is tried again after a pause that doubles, and after `tries` failures without a
committed batch in between it is left alone and reported. What was stopped on purpose is held and not touched.
What has nothing to do, because its turn has not come or it has read to the end, is idle until it is released.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from mooring.errors import OvertakenError, described
from mooring.placement.placement import FragmentSites

State = Literal["running", "waiting", "held", "given up", "idle"]
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

JOINS = "it joins the run, and is not up yet"
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


@dataclass(frozen=True)
class Incident:
    """Something that happened, for the report."""

    at_s: float
    what: str


@dataclass
class _Fragment:
    site: str
    state: State = "running"
    due_s: float = 0.0
    failures: int = 0
    why: str = ""


@dataclass
class Recovery:
    """One per run. Times are seconds of any clock that only goes forward."""

    began: FragmentSites
    """Where everything is at first."""
    choose: Replacement
    options: RecoveryOptions = field(default_factory=RecoveryOptions)
    tell: Callable[[Incident], None] = lambda incident: None
    """Called with everything that happens and is decided."""
    lost: dict[str, str] = field(default_factory=dict)
    """Site -> why it counts as lost."""
    idle: Collection[str] = ()
    """Fragments that are not started at first."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Sites that are kept empty on purpose, as of now, and why: nothing is started there."""

    def __post_init__(self) -> None:
        self._fragments = {
            name: _Fragment(site, "idle" if name in self.idle else "running")
            for name, site in self.began.items()
        }
        for fragment in self._fragments.values():
            if fragment.site in self.left and fragment.state == "running":
                fragment.state, fragment.why = "waiting", self.left[fragment.site]

    @property
    def placement(self) -> FragmentSites:
        """Where every fragment should be now."""
        return FragmentSites({name: fragment.site for name, fragment in self._fragments.items()})

    def is_at(self, fragment: str) -> str:
        """The site where it should be now."""
        return self._fragments[fragment].site

    def is_closed(self, site: str) -> bool:
        """Whether nothing can be started there: it is lost, or kept empty."""
        return site in self.lost or site in self.left

    # What happened

    def site_emptied(self, site: str, now_s: float) -> None:
        """What may run nowhere else was stopped there: it waits until the site is used again."""
        for name, fragment in self._fragments.items():
            if fragment.site == site and self._happened(name, "site lost"):
                fragment.due_s, fragment.why = now_s, self.left.get(site, "its site was emptied")

    def site_lost(self, site: str, why: str, now_s: float) -> None:
        """Everything at the site stopped, or can no longer be asked to stop."""
        if site in self.lost:
            return
        self.lost[site] = why
        self.note(now_s, f"the site {site} is lost: {why}")
        for name, fragment in self._fragments.items():
            if fragment.site == site and self._happened(name, "site lost"):
                fragment.due_s, fragment.why = now_s, f"its site {site} is lost"
        self._replace(now_s)

    def site_back(self, site: str, now_s: float) -> None:
        why = self.lost.pop(site, None)
        if why is None:
            return
        back = "is up, and is used from now on" if why == JOINS else "is back"
        self.note(now_s, f"the site {site} {back}")
        for fragment in self._fragments.values():
            if fragment.site == site and fragment.state == "waiting":
                fragment.due_s = now_s
        self._replace(now_s)

    def failed(self, fragment: str, why: str, now_s: float, *, passing: bool = False) -> None:
        """It ended by itself, or could not be started. `passing`: for a reason outside it that somebody will
        remove, such as a full disk, so that it is never given up.
        """
        found = self._fragments[fragment]
        too_often = found.failures + 1 >= self.options.tries and not passing
        if not self._happened(fragment, "failed too often" if too_often else "failed"):
            return
        found.failures += 1
        found.why = why
        if too_often:
            times = f"{found.failures} times in a row"
            self.note(now_s, f"{fragment} failed {times} and is not tried again: {why}")
            return
        pause_s = min(
            self.options.first_pause_s * 2.0 ** min(found.failures - 1, 60), self.options.longest_pause_s
        )
        found.due_s = now_s + pause_s
        self.note(now_s, f"{fragment} failed at {found.site}: {why}; next try in {pause_s:g} s")
        if found.site in self.left:
            self._replace(now_s)

    def progressed(self, fragment: str) -> None:
        """It has committed a batch since it was started."""
        self._fragments[fragment].failures = 0

    def hold(self, fragment: str, why: str) -> None:
        """Stopped on purpose: nothing starts it until it is released."""
        self._happened(fragment, "held")
        self._fragments[fragment].why = why

    def release(self, fragment: str, now_s: float) -> None:
        """Whatever held it is over, or its turn has come, and it does not run: start it."""
        if self._happened(fragment, "released"):
            found = self._fragments[fragment]
            found.due_s, found.why = now_s, "held until now"
            self._replace(now_s)

    def ended(self, fragment: str) -> None:
        """It has read to the end of what there was, as it should."""
        self._happened(fragment, "ended")

    def started(self, fragment: str, site: str) -> None:
        """It runs there now, by our order or by a move."""
        self._happened(fragment, "started")
        found = self._fragments[fragment]
        found.site, found.why = site, ""

    # What to do

    def due(self, now_s: float) -> list[Start]:
        """Fragments to start now. One whose site is lost, or kept empty, waits for the site."""
        return [
            Start(name, fragment.site)
            for name, fragment in self._fragments.items()
            if fragment.state == "waiting" and fragment.due_s <= now_s and not self.is_closed(fragment.site)
        ]

    def state_of(self, fragment: str) -> State:
        return self._fragments[fragment].state

    def troubles(self) -> dict[str, str]:
        """What does not run as it should, by fragment, in words."""
        return {
            name: f"{fragment.state}: {fragment.why}"
            for name, fragment in self._fragments.items()
            if fragment.state not in ("running", "idle")
        }

    def _happened(self, name: str, event: Event) -> bool:
        """Follow the table; False where the event changes nothing."""
        fragment = self._fragments[name]
        reached = TRANSITIONS.get((fragment.state, event))
        if reached is not None:
            fragment.state = reached
        return reached is not None

    def _replace(self, now_s: float) -> None:
        """Ask the policy for sites for the fragments that wait at lost ones, or at those kept empty."""
        stranded = [n for n, f in self._fragments.items() if f.state == "waiting" and self.is_closed(f.site)]
        if not stranded:
            return
        try:
            chosen = self.choose(self.placement, {*self.lost, *self.left})
        except OvertakenError:
            raise
        except Exception as failure:  # a policy may raise anything; what runs goes on
            self.note(now_s, f"{', '.join(stranded)} wait for their site: {described(failure)}")
            return
        for name in stranded:
            fragment = self._fragments[name]
            to = chosen.get(name, fragment.site)
            if to == fragment.site or self.is_closed(to):
                self.note(now_s, f"{name} waits for its site {fragment.site}")
            else:
                self.note(now_s, f"{name} goes from {fragment.site} to {to}")
                fragment.site, fragment.due_s = to, now_s

    def note(self, now_s: float, what: str) -> None:
        """Something for the report."""
        self.tell(Incident(now_s, what))
