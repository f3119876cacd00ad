"""Mooring decides where each operator of a streaming pipeline runs."""

from mooring.errors import EngineError, InfeasibleError, InputError, MooringError, UnsupportedError
from mooring.placement.placement import Placement
from mooring.problem.problem import Problem
from mooring.run import Plan, compare, evaluate, headroom, plan
from mooring.simulator.data_plane.simulate import simulate

__version__ = "0.1.0"

__all__ = [
    "EngineError",
    "InfeasibleError",
    "InputError",
    "MooringError",
    "Placement",
    "Plan",
    "Problem",
    "UnsupportedError",
    "compare",
    "evaluate",
    "headroom",
    "plan",
    "simulate",
]
