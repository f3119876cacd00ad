"""The part of the problem that all optimisers share: fragments, their flows, and their needs."""

from __future__ import annotations

import numpy as np

from mooring.algorithms.relaxation.machines.messages import FragmentLink, FragmentSpec
from mooring.algorithms.relaxation.machines.optimiser import optimiser_machines
from mooring.algorithms.relaxation.machines.params import AGENTS
from mooring.algorithms.relaxation.machines.settings import RelaxationSettings
from mooring.contracts.site_machine import MakeMachine
from mooring.model.load.build import build_load_model
from mooring.model.load.model import LoadModel
from mooring.model.placement.links import node_bytes, node_flows, problem_links
from mooring.model.problem.problem import Problem


def fragment_specs(problem: Problem, known: LoadModel | None = None) -> list[FragmentSpec]:
    """In the order of the problem's fragments, at its rates; links come in one order whatever the rates.
    `known`: its load model, where there is one already.
    """
    model = known or build_load_model(problem)
    cores = np.asarray(model.coefficients @ model.present).ravel() + model.fixed_cores
    _, unit = node_flows(problem)
    sizes = node_bytes(problem) if unit == "B" else [1.0] * (len(problem.streams) + len(problem.operators))
    links: list[list[FragmentLink]] = [[] for _ in problem.fragments]
    for link in problem_links(problem, model.pinned_site):
        for own, other in ((link.source, link.target), (link.target, link.source)):
            if own >= 0:
                ends = (other, -1) if other >= 0 else (-1, ~other)
                links[own].append(FragmentLink(*ends, float(link.rate), float(sizes[link.node] or 1.0)))
    return [
        FragmentSpec(
            f,
            float(cores[f]),
            tuple(links[f]),
            bool(model.pinned_site[f] < 0) and all(problem.operators[j].movable for j in members),
        )
        for f, members in enumerate(problem.fragments)
    ]


def simulated_optimisers(problem: Problem, options: RelaxationSettings | None = None) -> MakeMachine:
    """They know the fragments and capacities of the problem from the beginning."""
    known = fragment_specs(problem), problem.capacity_cores.tolist()
    return optimiser_machines(lambda sites: known, AGENTS if options is None else options.params())
