"""A placement brought to life on an engine."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.deployment.channels import channels_of
from mooring.deployment.engine import Engine
from mooring.problem.problem import Problem


def carry_out(engine: Engine, problem: Problem, site_of: Mapping[str, str]) -> None:
    """Connect every channel, then start every fragment where the placement (operator -> site) has it."""
    for channel in channels_of(problem):
        engine.connect(channel)
    for fragment, members in zip(problem.fragment_names, problem.fragments, strict=True):
        engine.start(fragment, site_of[problem.operators[members[0]].name])
