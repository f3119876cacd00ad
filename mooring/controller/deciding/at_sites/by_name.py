"""The deciders whose machines are at the sites, by the name that `--adapt` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.controller.deciding.ants_decider import AntsDecider
from mooring.controller.deciding.at_sites.ants_briefing import AntsBriefing
from mooring.controller.deciding.at_sites.briefing import Briefing
from mooring.controller.deciding.at_sites.optimiser_briefing import OptimiserBriefing
from mooring.controller.deciding.at_sites.overlay_briefing import OverlayBriefing
from mooring.controller.deciding.decider import Decider
from mooring.problem.problem import Problem


def _of_ants(problem: Problem, stand_in: Decider | None, states_latency: bool) -> Briefing:
    return AntsBriefing(problem, stand_in if isinstance(stand_in, AntsDecider) else AntsDecider())


BRIEFINGS: Mapping[str, Callable[[Problem, Decider | None, bool], Briefing]] = {
    "relaxation": lambda problem, stand_in, states_latency: OptimiserBriefing(problem, states_latency),
    "ants": _of_ants,
    "overlay": lambda problem, stand_in, states_latency: OverlayBriefing(problem, states_latency),
}
"""From the problem, the decider that would stand in for the machines in one place, which has the settings,
and whether the problem's latencies count whatever machines measure. Each has its machines in
`runtime/hosted_by_name.py` under the same name."""
