"""The deciders whose machines are at the sites, by the name that `--adapt` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.controller.deciding.at_sites.briefing import Briefing
from mooring.controller.deciding.at_sites.optimiser_briefing import OptimiserBriefing
from mooring.problem.problem import Problem

BRIEFINGS: Mapping[str, Callable[[Problem], Briefing]] = {"relaxation": OptimiserBriefing}
"""Each has its machines in `runtime/hosted_by_name.py` under the same name."""
