"""The predicted pause of a move: a range, by kind of fragment and target, from the moves that were made.

A cluster takes longer than an embedded site, for its first batch goes to several processes. So a site's own
moves tell of it; other sites' moves do only where it has none of that kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal, get_args

from mooring.model.problem.operator import MovesAs
from mooring.model.problem.problem import Problem

Part = Literal["low", "likely", "high"]
KINDS: tuple[MovesAs, ...] = get_args(MovesAs)
_FIXED_S: Mapping[MovesAs, float] = {"stateless": 1.0, "stateful": 2.0, "join": 2.0, "view": 0.1}
_UNTRIED = 5.0
"""Without a move of its kind, a pause may be so many times longer, or shorter, than said."""
_LEAST_S = 0.02


@dataclass(frozen=True)
class Pause:
    """Predicted, in seconds."""

    low_s: float
    likely_s: float
    high_s: float

    def words(self) -> str:
        """
        >>> Pause(0.31, 1.2, 4.8).words(), Pause(42.0, 60.2, 61.0).words(), Pause(0.02, 0.1, 0.5).words()
        ('0.3 to 4.8 s', '42 to 61 s', '0.02 to 0.5 s')
        """
        return f"{_seconds(self.low_s)} to {_seconds(self.high_s)} s"

    def holds(self, pause_s: float) -> bool:
        """Give or take what nobody notices, and what the words do not show.

        >>> Pause(0.0208, 0.06, 0.19).holds(0.0203), Pause(0.3, 1.2, 4.8).holds(5.0)
        (True, False)
        """
        return self.low_s - _LEAST_S <= pause_s <= self.high_s + _LEAST_S


def _seconds(value: float) -> str:
    return f"{value:.{2 if value < 0.1 else 1 if value < 10.0 else 0}f}"


@dataclass(frozen=True)
class PastMove:
    """A move that was made."""

    pause_s: float
    state_bytes: float = 0.0
    kind: MovesAs | None = None
    """None: as its state tells."""
    batch_s: float = 0.0
    """How long its batches took before."""
    to_site: str = ""

    @property
    def moved_as(self) -> MovesAs:
        return self.kind or ("stateful" if self.state_bytes > 0.0 else "stateless")


@dataclass(frozen=True)
class MoveTimes:
    """How long a fragment stands still: a fixed part by its kind, the way of its state, and its first batch
    at the target, which takes as long as its last ones did. The defaults are about what warm sites of two
    cores take.
    """

    stateless_s: float = _FIXED_S["stateless"]
    stateful_s: float = _FIXED_S["stateful"]
    bytes_per_s: float = 100e6
    join_s: float = _FIXED_S["join"]
    view_s: float = _FIXED_S["view"]
    spread: Mapping[MovesAs, tuple[float, float]] = field(default_factory=dict)
    """Kind that was moved -> the shortest and the longest of its pauses over what would have been said."""
    batch_s: Mapping[str, float] = field(default_factory=dict)
    """Per fragment, how long its last batch took."""
    state_bytes: Mapping[str, float] = field(default_factory=dict)
    """Per fragment, as last measured; the problem's own figure where missing."""
    at_sites: Mapping[str, MoveTimes] = field(default_factory=dict)
    """Site -> the same for moves there, by its own as far as it has any."""

    def pause_s(self, *, stateful: bool, state_bytes: float) -> float:
        return self.pause("stateful" if stateful else "stateless", state_bytes).likely_s

    def pause(self, kind: MovesAs, state_bytes: float = 0.0, batch_s: float = 0.0) -> Pause:
        likely_s = max(_LEAST_S, self._fixed_s(kind) + batch_s + state_bytes / self.bytes_per_s)
        low, high = self.spread.get(kind, (1.0 / _UNTRIED, _UNTRIED))
        return Pause(low * likely_s, likely_s, high * likely_s)

    def of_fragment(self, problem: Problem, fragment: int, to_site: str = "") -> Pause:
        if to_site in self.at_sites:
            return self.at_sites[to_site].of_fragment(problem, fragment)
        name = problem.fragment_names[fragment]
        batch_s = 0.0 if (kind := moves_as(problem, fragment)) == "view" else self.batch_s.get(name, 0.0)
        return self.pause(kind, self.state_of(problem, fragment), batch_s)

    def state_of(self, problem: Problem, fragment: int) -> float:
        """Bytes of state that the fragment takes along."""
        stated = sum(problem.operators[j].state_bytes for j in problem.fragments[fragment])
        return self.state_bytes.get(problem.fragment_names[fragment], stated)

    def fitted(self, past: Sequence[PastMove]) -> MoveTimes:
        """The same with the fixed parts as moves of this project took, and with how far these differ. Ranges
        are wider than what was seen: 3 times after one move of a kind, 1.2 times after twenty.
        Of each site the same again, by the moves to it.

        >>> times = MoveTimes().fitted([PastMove(0.5), PastMove(0.9, batch_s=0.2), PastMove(4.0, 2e8)])
        >>> round(times.stateless_s, 3), times.stateful_s, times.join_s
        (0.6, 2.0, 2.0)
        >>> times.pause("stateless").words()
        '0.2 to 1.6 s'
        """
        everywhere = self._fitted(past)
        sites = dict.fromkeys(move.to_site for move in past if move.to_site)
        own = {site: everywhere._fitted([m for m in past if m.to_site == site]) for site in sites}
        return replace(everywhere, at_sites=own)

    def _fitted(self, past: Sequence[PastMove]) -> MoveTimes:
        fixed, spread = dict[MovesAs, float](), dict[MovesAs, tuple[float, float]]()
        for kind in KINDS:
            own = [move for move in past if move.moved_as == kind]
            if own:
                known = [move.batch_s + move.state_bytes / self.bytes_per_s for move in own]
                left = [max(0.0, move.pause_s - s) for move, s in zip(own, known, strict=True)]
                fixed[kind] = median(left)
                said = [max(_LEAST_S, fixed[kind] + s) for s in known]
                ratios = [max(_LEAST_S, m.pause_s) / s for m, s in zip(own, said, strict=True)]
                wider = 1.0 + (_UNTRIED - 1.0) / (len(own) + 1)
                spread[kind] = min(ratios) / wider, max(ratios) * wider
        return MoveTimes(
            *(fixed.get("stateless", self.stateless_s), fixed.get("stateful", self.stateful_s)),
            self.bytes_per_s,
            *(fixed.get("join", self.join_s), fixed.get("view", self.view_s)),
            {**self.spread, **spread},
            self.batch_s,
            self.state_bytes,
        )

    def _fixed_s(self, kind: MovesAs) -> float:
        return {
            "stateless": self.stateless_s,
            "stateful": self.stateful_s,
            "join": self.join_s,
            "view": self.view_s,
        }[kind]


def moves_as(problem: Problem, fragment: int) -> MovesAs:
    """The kind of a fragment is that of its operator with the longest pause."""
    kinds = {problem.operators[j].moved_as for j in problem.fragments[fragment]}
    return next(kind for kind in ("view", "join", "stateful", "stateless") if kind in kinds)


def fragment_pause_s(problem: Problem, fragment: int, times: MoveTimes, to_site: str = "") -> float:
    """How long a fragment would likely stand still."""
    return times.of_fragment(problem, fragment, to_site).likely_s
