"""Where fragments go that have no site: by the policy, at the rates that were measured.

The policy is advice too: one that raises what it should not counts as one without a plan, and is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from mooring.controller.parts import Parts
from mooring.controller.run_state import RunState
from mooring.errors import EngineError, MooringError, OvertakenError, described
from mooring.model.placement.closed_sites import replace_lost
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem


@dataclass
class Replanning:
    state: RunState
    policy: Callable[[Problem], Placement]
    parts: Parts

    def replaced(self, sites: FragmentSites, lost: Collection[str]) -> FragmentSites:
        """`sites` with what is at lost ones placed anew. A fragment waits only where no site has room by its
        quota: that its neighbours are busy, or that it falls behind, may pass.
        """
        seen = self.parts.do("advice", "planning at the measured rates", lambda: self.state.problem_as_seen)
        try:
            placed = replace_lost(seen or self.state.problem, sites, lost, self.planned)
            if seen is not None and any(site in lost for site in placed.values()):
                placed = replace_lost(self.state.problem_by_quota, placed, lost, self.planned)
            return placed
        except (MooringError, OvertakenError):
            raise
        except Exception as failure:  # what was measured fits no load model: go by what the problem states
            self.parts.failed("advice", "planning at the measured rates", failure)
            return replace_lost(self.state.problem, sites, lost, self.planned)

    def planned(self, problem: Problem) -> Placement:
        try:
            return self.policy(problem)
        except MooringError:
            raise
        except Exception as failure:
            self.parts.failed("advice", "placing fragments without a site", failure)
            raise EngineError(f"the policy failed: {described(failure)}") from failure
