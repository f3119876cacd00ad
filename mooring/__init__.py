"""Mooring decides where each operator of a streaming pipeline runs.

The public names are loaded when they are first used (PEP 562): importing the package takes a moment, and who
only reads a problem does not wait for what plans it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mooring.errors import EngineError, InfeasibleError, InputError, MooringError, UnsupportedError

if TYPE_CHECKING:
    from mooring.controller.deciding.decider import Decider
    from mooring.placement.deadline import Deadline
    from mooring.placement.placement import Placement
    from mooring.placement.policy import Context, Policy
    from mooring.problem.problem import Problem
    from mooring.run import Plan, compare, evaluate, headroom, plan
    from mooring.simulator.data_plane.simulate import simulate

__version__ = "0.1.0"

__all__ = [
    "Context",
    "Deadline",
    "Decider",
    "EngineError",
    "InfeasibleError",
    "InputError",
    "MooringError",
    "Placement",
    "Plan",
    "Policy",
    "Problem",
    "UnsupportedError",
    "compare",
    "evaluate",
    "headroom",
    "plan",
    "simulate",
]

_HOMES = {
    "Context": "mooring.placement.policy",
    "Deadline": "mooring.placement.deadline",
    "Decider": "mooring.controller.deciding.decider",
    "Placement": "mooring.placement.placement",
    "Policy": "mooring.placement.policy",
    "Problem": "mooring.problem.problem",
    "Plan": "mooring.run",
    "compare": "mooring.run",
    "evaluate": "mooring.run",
    "headroom": "mooring.run",
    "plan": "mooring.run",
    "simulate": "mooring.simulator.data_plane.simulate",
}

if not TYPE_CHECKING:  # or a type checker would believe that every name exists

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__():
        return [*globals(), *_HOMES]
