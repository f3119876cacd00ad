"""Keeping a run alive: what happens to sites and fragments goes to recovery, and its orders to the engine.

One fault never stops the rest: a lost site, a failing fragment or a channel whose files are gone concern the
fragments they touch, and everything else runs on.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from mooring.contracts.engine import FallibleEngine
from mooring.controller.events import (
    Event,
    FragmentsStarted,
    FragmentStarts,
    FragmentStops,
    Incident,
    MovesEnded,
    ProblemChanged,
    SiteReturns,
    StandStill,
    StartsTried,
)
from mooring.controller.parts import Parts
from mooring.controller.recovery import JOINS, Recovery, Start
from mooring.controller.run_state import RunState
from mooring.errors import EngineError, OvertakenError, SiteBusyError, SiteLostError, described
from mooring.model.placement.placement import FragmentSites

_PASSING = ("No space left on device", "Disk quota exceeded", "Too many open files", "Read-only file system")
"""Failures that the fragment is not to blame for, and that end when somebody makes room."""


class Reviver(Protocol):
    """What brings lost sites back."""

    def look_after(self, site: str) -> None: ...
    def returned(self) -> list[str]: ...
    def refusals(self) -> dict[str, str]: ...


@dataclass
class Supervisor:
    state: RunState
    engine: FallibleEngine
    recovery: Recovery
    reviver: Reviver
    parts: Parts = field(default_factory=Parts)
    """Of the run."""
    _batches_at_start: dict[str, int] = field(default_factory=dict)
    _losses_s: dict[str, list[float]] = field(default_factory=dict)
    _held_back: dict[str, float] = field(default_factory=dict)
    """Site that flaps -> when it is used again."""

    def tick(self, now_s: float) -> Iterator[Event]:
        """Often: sites that died or came back, and fragments that are due. Asks no site that runs well."""
        for trouble in self.parts.do("data plane", "looking for dead sites", self.engine.dead_sites) or ():
            yield from self._lose_site(trouble.site, trouble.failure, now_s)
        for site in self.reviver.returned():
            yield SiteReturns(site)
            # Fenced off, and ended only to save the site its work: it is used either way.
            self.parts.do(
                "data plane", f"ending leftovers at {site}", partial(self.engine.clear_leftovers, site)
            )
            yield from self._returned(site, now_s)
        for site in [site for site, until_s in self._held_back.items() if until_s <= now_s]:
            del self._held_back[site]
            self.recovery.site_back(site, now_s)
            yield from self._told(now_s)
        due = [order for order in self.recovery.due(now_s) if self.engine.is_idle(order.fragment)]
        orders = due[: self.recovery.options.most_at_once]
        started: dict[str, str] = {}
        for order in orders:
            yield FragmentStarts(order.fragment, order.site)
            if (yield from self._start(order, now_s)):
                started[order.fragment] = order.site
        if orders:
            yield StartsTried()
        if started:
            yield FragmentsStarted(FragmentSites(started))

    def look(self, now_s: float) -> Iterator[Event]:
        """Every few seconds: ask every fragment how it is."""
        yield from self._compare_notes(now_s)
        yield from self.parts.through(
            "data plane", "checking the channels", lambda: self._check_channels(now_s)
        )
        self.parts.do("measurement", "counting batches", self._count_batches)
        yield from self.parts.through("data plane", "inspecting the fragments", lambda: self._inspect(now_s))
        yield from self.tick(now_s)

    def on(self, event: Event) -> Iterator[Event]:
        match event:
            case FragmentsStarted() | MovesEnded(ending="done"):
                # A site that joined or came back gets no more than its capacity from now on.
                self.engine.settled()
            case StandStill(site=site, fragments=fragments):
                for fragment in fragments:
                    yield from self._stop(fragment)
                self.recovery.site_emptied(site)
            case ProblemChanged(added=added):
                for site in added:
                    self.expect(site)

    def _told(self, now_s: float) -> Iterator[Event]:
        """What recovery has to say, and where it then sends what has no site."""
        yield from map(Incident, self.recovery.said())
        self.recovery.place_stranded(now_s)
        yield from map(Incident, self.recovery.said())

    def _count_batches(self) -> None:
        for fragment, count in self.engine.batches().items():
            if count > self._batches_at_start.get(fragment, 0):
                self.recovery.progressed(fragment)

    def _inspect(self, now_s: float) -> Iterator[Event]:
        found = self.engine.inspect()
        odd = {trouble.fragment: str(trouble.failure) for trouble in found if trouble.unknown}
        for fragment in self.state.where:
            if fragment in odd:
                self.parts.failed("measurement", f"inspecting {fragment}", odd[fragment])
            else:
                self.parts.works("measurement", f"inspecting {fragment}")
        for trouble in found:
            if trouble.unknown:
                continue
            if trouble.fragment is None:
                yield from self._lose_site(trouble.site, trouble.failure, now_s)
            elif self.recovery.state_of(trouble.fragment) == "running" and not self.engine.in_move(
                trouble.fragment
            ):
                self.engine.forget(trouble.fragment)
                yield from self._failed(trouble.fragment, trouble.failure, now_s)

    def rest(self, fragments: Collection[str], why: str) -> Iterator[Event]:
        """Stop fragments on purpose; they stay where they are, and nothing starts them until they wake."""
        for fragment in fragments:
            yield from self._stop(fragment)
            self.recovery.hold(fragment, why)
        self.state.resting |= set(fragments)

    def wake(
        self, fragments: Collection[str], now_s: float, sites: Mapping[str, str] | None = None
    ) -> Iterator[Event]:
        """Have fragments started that rest or are idle, at their site or the one given, or, if that is lost,
        elsewhere.
        """
        for fragment in fragments:
            self.recovery.release(fragment, now_s, (sites or {}).get(fragment))
            yield from self._told(now_s)
        self.state.resting -= set(fragments)

    def _stop(self, fragment: str) -> Iterator[Event]:
        yield FragmentStops(fragment)
        if not self.engine.is_idle(fragment):
            self.engine.stop(fragment)

    def expect(self, site: str) -> None:
        """A site joins the run: it is used once it is up."""
        self.recovery.close(site, JOINS)
        self.reviver.look_after(site)

    def _compare_notes(self, now_s: float) -> Iterator[Event]:
        """A failed move may leave a fragment idle."""
        self._learn_homes()
        for fragment in self.state.where:
            if self.engine.is_idle(fragment) and self.recovery.state_of(fragment) == "running":
                self.recovery.failed(fragment, "a move left it without a site", now_s)
                yield from self._told(now_s)

    def _learn_homes(self) -> None:
        """Moves change what runs where behind recovery's back, also while a site is being lost."""
        for fragment, site in self.engine.homes().items():
            if self.engine.in_move(fragment):
                continue
            if site in self.state.lost:
                self.engine.forget(fragment)
            elif self.state.where[fragment] != site or self.recovery.state_of(fragment) == "waiting":
                self.recovery.started(fragment, site)

    def _lose_site(self, site: str, failure: EngineError, now_s: float) -> Iterator[Event]:
        if site in self.state.lost:
            if self._held_back.pop(site, None) is not None:  # lost again before it was used
                self._losses_s[site].append(now_s)
                self.reviver.look_after(site)
            return
        self._losses_s.setdefault(site, []).append(now_s)
        self._learn_homes()
        for fragment, at in self.state.where.items():
            if at == site and not self.engine.in_move(fragment):
                self.engine.forget(fragment)
        self.recovery.site_lost(site, str(failure), now_s)
        yield from self._told(now_s)
        self.reviver.look_after(site)

    def _returned(self, site: str, now_s: float) -> Iterator[Event]:
        """A site that comes and goes would take its fragments down each time: it is used again only once it
        has stayed for a while, longer after every loss.
        """
        options = self.recovery.options
        recent = [at for at in self._losses_s.get(site, ()) if now_s - at <= options.flapping_s]
        self._losses_s[site] = recent
        if len(recent) < 2:
            self.recovery.site_back(site, now_s)
            yield from self._told(now_s)
            return
        hold_s = min(options.first_hold_s * 2.0 ** min(len(recent) - 2, 30), options.longest_hold_s)
        self._held_back[site] = now_s + hold_s
        why = f"it is back after {len(recent)} losses and stays unused for {hold_s:g} s"
        self.recovery.close(site, why)
        yield Incident(f"the site {site}: {why}")

    def _start(self, order: Start, now_s: float) -> Generator[Event, None, bool]:
        if order.site in self.state.lost:  # since a moment ago
            return False
        try:
            self.engine.start(order.fragment, order.site)
        except SiteBusyError as failure:  # what it may have started late is undone
            yield from self._failed(order.fragment, failure, now_s)
        except SiteLostError as failure:
            yield from self._lose_site(order.site, failure, now_s)
        except OvertakenError:
            raise
        except (
            Exception
        ) as failure:  # whatever it was: the fragment is in trouble, and everything else goes on
            yield from self._failed(order.fragment, failure, now_s)
        else:
            if (counts := self.parts.do("measurement", "counting batches", self.engine.batches)) is not None:
                self._batches_at_start[order.fragment] = counts.get(order.fragment, 0)
            self.recovery.started(order.fragment, order.site)
            return True
        return False

    def _failed(self, fragment: str, failure: Exception, now_s: float) -> Iterator[Event]:
        passing = isinstance(failure, SiteBusyError) or any(sign in str(failure) for sign in _PASSING)
        self.recovery.failed(fragment, described(failure), now_s, passing=passing)
        yield from self._told(now_s)

    def _check_channels(self, now_s: float) -> Iterator[Event]:
        """Stop who writes or reads a channel that lost files, before rows are silently left out."""
        found = self.engine.lost_channels()
        for name, why in found.items():
            if name not in self.state.lost_channels:
                users = ", ".join(self.engine.users_of(name))
                yield Incident(
                    f"the channel of {name} is lost: {why}; {users} stop until it is restored (or start "
                    "over with --fresh)"
                )
            for fragment in self.engine.users_of(name):
                if self.engine.in_move(fragment):  # at the next look, wherever it is then
                    continue
                if self.recovery.state_of(fragment) == "running":
                    self.parts.do(
                        "data plane",
                        f"stopping {fragment}",
                        partial(self.engine.stop, fragment, patience_s=0.0),
                    )
                self.recovery.hold(fragment, f"the channel of {name} is lost: {why}")
        healed = [name for name in self.state.lost_channels if name not in found]
        self.state.lost_channels = dict(found)
        still = {fragment for name in found for fragment in self.engine.users_of(name)}
        for name in healed:
            yield Incident(f"the channel of {name} is restored")
            for fragment in self.engine.users_of(name):
                if fragment not in still:
                    self.recovery.release(fragment, now_s)
                    yield from self._told(now_s)
