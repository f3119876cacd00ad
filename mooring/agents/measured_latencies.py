"""Latencies between the sites of a project, as its agents measured them: for `latency_ms: measured`.

Every agent keeps the figures of the whole network in a file (`survey.json`), so one of them on this machine
is enough. A pair that was measured has the mean of what both ends measured; one that was not has what the
coordinates predict; and a site without any measurement is taken to be as far away as the farthest one.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from dataclasses import dataclass, field

import msgspec

from mooring.agents.transport.members import Members
from mooring.atomic_files import write_whole
from mooring.coordination.survey import NetworkFigures
from mooring.model.network.coordinate import Coordinate
from mooring.quantity import milliseconds

SURVEY_FILE_NAME = "survey.json"
_HOUR_MS = 3_600_000.0


class KeptSurvey(msgspec.Struct, frozen=True):
    """What is in the file: with names, because numbers of sites change with `mooring.yml`."""

    time_ms: float
    sites: tuple[str, ...]
    figures: NetworkFigures


def keep_survey(members: Members, keeper: str, figures: NetworkFigures) -> None:
    kept = KeptSurvey(time.time() * 1000.0, members.sites, figures)
    folder = members.own_folder(keeper)
    with contextlib.suppress(OSError):  # a full disk costs the file, never the agent
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / SURVEY_FILE_NAME, msgspec.json.encode(kept))


@dataclass(frozen=True)
class MeasuredLatencies:
    latency_ms: dict[str, dict[str, float]] | None
    """One way, for every pair of sites; None: nothing is known."""
    notes: tuple[str, ...]
    """How it was come by, and what is missing."""


@dataclass(frozen=True)
class _Figures:
    """Of one site, with names."""

    coordinate: Coordinate
    latency_ms: dict[str, float]


@dataclass
class _Found:
    sites: dict[str, _Figures] = field(default_factory=dict)
    time_ms: float = 0.0

    def measured_ms(self, a: str, b: str) -> list[float]:
        """From each end that measured it."""
        rows = [(self.sites[a], b)] if a in self.sites else []
        rows += [(self.sites[b], a)] if b in self.sites else []
        return [row.latency_ms[other] for row, other in rows if other in row.latency_ms]

    def latency_ms(self, a: str, b: str) -> float | None:
        if measured := self.measured_ms(a, b):
            return sum(measured) / len(measured)
        if a in self.sites and b in self.sites:
            return self.sites[a].coordinate.latency_ms(self.sites[b].coordinate)
        return None


def measured_latencies(members: Members) -> MeasuredLatencies:
    found = _found(members)
    pairs = list(itertools.combinations(members.sites, 2))
    known = {pair: ms for pair in pairs if (ms := found.latency_ms(*pair)) is not None}
    if pairs and not known:
        return MeasuredLatencies(None, (_NOTHING,))
    largest_ms = max(known.values(), default=0.0)
    latency_ms: dict[str, dict[str, float]] = {}
    for a, b in pairs:
        latency_ms.setdefault(a, {})[b] = known.get((a, b), largest_ms)
    return MeasuredLatencies(latency_ms, tuple(_notes(found, pairs, known, largest_ms)))


_NOTHING = (
    "latency_ms is `measured`, but agents have measured no latencies yet (`mooring run` starts agents at "
    "embedded sites, `mooring agent` elsewhere)"
)


def _notes(
    found: _Found,
    pairs: list[tuple[str, str]],
    known: dict[tuple[str, str], float],
    largest_ms: float,
) -> list[str]:
    predicted = [pair for pair in known if not found.measured_ms(*pair)]
    missing = [pair for pair in pairs if pair not in known]
    measured = len(known) - len(predicted)
    notes = [f"agents measured the latencies of {measured} of {len(pairs)} pairs of sites"]
    if predicted:
        notes.append(f"predicted from network coordinates: {_named(predicted)}")
    if missing:
        notes.append(
            f"no measured latency of {_named(missing)}: assumed {milliseconds(largest_ms)}, "
            "the largest measured"
        )
    age_ms = time.time() * 1000.0 - found.time_ms
    if age_ms > _HOUR_MS:
        notes.append(f"these latencies are {age_ms / _HOUR_MS:.0f} h old")
    return notes


def _named(pairs: list[tuple[str, str]]) -> str:
    shown = ", ".join(f"{a} - {b}" for a, b in pairs[:5])
    return shown if len(pairs) <= 5 else f"{shown} and {len(pairs) - 5} more pairs"


def _found(members: Members) -> _Found:
    """The newest file last, so that of two figures of one site the newer one counts."""
    kept = []
    for name in members.names:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            raw = (members.own_folder(name) / SURVEY_FILE_NAME).read_bytes()
            kept.append(msgspec.json.decode(raw, type=KeptSurvey))
    found = _Found()
    for survey in sorted(kept, key=lambda survey: survey.time_ms):
        found.time_ms = survey.time_ms
        names = dict(enumerate(survey.sites))
        for number, figures in survey.figures.sites:
            if number in names:
                latency_ms = {names[other]: ms for other, ms in figures.latency_ms if other in names}
                found.sites[names[number]] = _Figures(figures.coordinate, latency_ms)
    return found
