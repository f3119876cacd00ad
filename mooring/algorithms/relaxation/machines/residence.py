"""The reported placement of a site, and the room that it reserves.

    room       event                 becomes
    FREE       HoldRoom              HELD, if it fits; FREE, if not
    HELD       HoldRoom              HELD      a duplicate
    HELD       Refused, Done, ...    FREE      the mover's word, and nothing else

Whereabouts are learnt and never made here. Room is durable; whereabouts are requested again after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mooring.algorithms.relaxation.machines.messages import FragmentSpec, HeldRoom
from mooring.coordination.move_messages import (
    NO_STATE,
    NOWHERE,
    LookUp,
    ProposalId,
    StartedAt,
    Whereabouts,
)


class Residence:
    def __init__(
        self, site: int, capacity_cores: float, specs: Sequence[FragmentSpec], fill: float = 1.0
    ) -> None:
        """fill: share of the cores up to which something may come."""
        self.site, self.capacity_cores, self._fill = site, capacity_cores, fill
        self.specs: dict[int, FragmentSpec] = {}
        self.take(specs)
        self.where: dict[int, StartedAt] = {}
        self._here: set[int] = set()
        """Those of them that run here: every ping asks for what is left beside them."""
        self.measured_cores: dict[int, float] = {}
        """Of fragments that run here."""
        self.held: dict[ProposalId, HeldRoom] = {}
        self.informed = False
        """Whether it has been told of everything that runs here. Nothing is promised room before."""
        self.state = 0
        """Of the mover, that it was told everything of."""

    def take(self, specs: Iterable[FragmentSpec]) -> None:
        """Fragments that there are."""
        self.specs |= {spec.fragment: spec for spec in specs}

    def learn(self, places: Iterable[StartedAt]) -> list[int]:
        """Returns the fragments that left, or came, or were started anew here."""
        concerned = []
        for place in places:
            known = self.where.get(place.fragment)
            if place.newer_than(known):
                self.where[place.fragment] = place
                (self._here.add if place.site == self.site else self._here.discard)(place.fragment)
                if self.site in (place.site, NOWHERE if known is None else known.site):
                    concerned.append(place.fragment)
        return concerned

    def heard(self, told: Whereabouts) -> list[int]:
        self.informed |= told.tells_all(self.state)
        self.state = told.brings_to(self.state)
        return self.learn(told.places)

    def look_up(self) -> LookUp:
        return LookUp(self.state or (NO_STATE if self.where else 0))

    def site_of(self, fragment: int) -> int:
        place = self.where.get(fragment)
        return NOWHERE if place is None else place.site

    def runs(self, fragment: int) -> bool:
        return self.site_of(fragment) == self.site

    @property
    def running(self) -> tuple[FragmentSpec, ...]:
        return tuple(self.specs[fragment] for fragment in sorted(self._here) if fragment in self.specs)

    @property
    def unknown(self) -> list[int]:
        """What runs here, and of which no more is known."""
        return [fragment for fragment in self._here if fragment not in self.specs]

    @property
    def used_cores(self) -> float:
        """By what runs here and by what room is kept for; what has arrived is not counted twice."""
        fragments = {f: self.measured_cores.get(f, 0.0) for f in self.unknown}
        fragments |= {spec.fragment: self.cores(spec.fragment) for spec in self.running}
        fragments |= {room.fragment: room.cores for room in self.held.values()}
        return sum(fragments.values())

    @property
    def spare_cores(self) -> float:
        """Below zero where more runs here than should."""
        return self._fill * self.capacity_cores - self.used_cores

    def cores(self, fragment: int) -> float:
        return self.measured_cores.get(fragment, self.specs[fragment].cores)

    def hold(self, id: ProposalId, fragment: int, cores: float) -> bool:
        """Keep room, if there is enough; whether it is kept."""
        if id in self.held:
            return True
        if not self.informed or self.runs(fragment):
            return False
        if any(known not in self.measured_cores for known in self.unknown):
            return False  # of what has just come, nobody knows yet what it takes
        if not 0.0 <= cores <= self.spare_cores:
            return False
        self.held[id] = HeldRoom(id, fragment, cores)
        return True

    def let_go(self, id: ProposalId) -> bool:
        """The proposal has ended; whether room was kept for it."""
        room = self.held.pop(id, None)
        if room is not None and room.fragment in self._here and room.fragment not in self.specs:
            self.measured_cores[room.fragment] = room.cores
        return room is not None
