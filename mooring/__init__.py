"""Mooring decides where each operator of a streaming pipeline runs.

The public names are loaded when they are first used (PEP 562): importing the package takes a moment, and
reading a problem does not load what plans it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mooring.errors import EngineError, InfeasibleError, InputError, MooringError, UnsupportedError

if TYPE_CHECKING:
    from mooring.contracts.deadline import Deadline
    from mooring.contracts.decider import Decider, Proposal
    from mooring.contracts.picture import Picture
    from mooring.contracts.policy import Context, Policy
    from mooring.model.placement.placement import Placement
    from mooring.model.problem.problem import Problem
    from mooring.planning import Plan, compare, evaluate, headroom, plan
    from mooring.running import Run, run
    from mooring.simulator.data_plane.simulate import simulate

__version__ = "0.2.0"

__all__ = [
    "Context",
    "Deadline",
    "Decider",
    "EngineError",
    "InfeasibleError",
    "InputError",
    "MooringError",
    "Picture",
    "Placement",
    "Plan",
    "Policy",
    "Problem",
    "Proposal",
    "Run",
    "UnsupportedError",
    "compare",
    "evaluate",
    "headroom",
    "plan",
    "run",
    "simulate",
]

_HOMES = {
    "Context": "mooring.contracts.policy",
    "Deadline": "mooring.contracts.deadline",
    "Decider": "mooring.contracts.decider",
    "Picture": "mooring.contracts.picture",
    "Placement": "mooring.model.placement.placement",
    "Policy": "mooring.contracts.policy",
    "Problem": "mooring.model.problem.problem",
    "Plan": "mooring.planning",
    "Proposal": "mooring.contracts.decider",
    "Run": "mooring.running",
    "compare": "mooring.planning",
    "evaluate": "mooring.planning",
    "headroom": "mooring.planning",
    "plan": "mooring.planning",
    "run": "mooring.running",
    "simulate": "mooring.simulator.data_plane.simulate",
}

if not TYPE_CHECKING:  # or a type checker would believe that every name exists

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__():
        return [*globals(), *_HOMES]
