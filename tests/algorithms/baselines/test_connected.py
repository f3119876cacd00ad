"""Connected load balancing, worked by hand on chains."""

from __future__ import annotations

from mooring.algorithms.baselines.connected import connected_assign
from mooring.contracts.policy import Context
from mooring.model.problem.problem import Problem


def chains(costs: dict[str, list[float]], sites: int) -> Problem:
    operators = {}
    for stream, own in costs.items():
        for number, cost in enumerate(own):
            source = stream if number == 0 else f"{stream}{number - 1}"
            operators[f"{stream}{number}"] = {"inputs": [source], "cost_us": cost}
    return Problem.from_dict(
        {
            "sites": {f"n{i}": {"capacity": 1} for i in range(sites)},
            "streams": {stream: {"rate": 100} for stream in costs},
            "operators": operators,
        }
    )


def test_chains_stay_whole_when_they_fit() -> None:
    """Two chains of 10, and a chain of 2 so that the average (11) is above each long chain."""
    problem = chains({"a": [4, 3, 3], "b": [5, 3, 2], "c": [1, 1]}, sites=2)
    context = Context.of(problem)
    sites = connected_assign(context.load, context.load.present)
    assert sites[:3].tolist() == [sites[0]] * 3
    assert sites[3:6].tolist() == [sites[3]] * 3
    assert sites[0] != sites[3]


def test_a_site_is_filled_no_further_than_the_average() -> None:
    """One chain of 3, 3, 2, 1 on two sites, average 4.5. The second 3 may not take the 2 it is connected to;
    that goes to the least loaded site, the first of equals, and is then itself above the average."""
    problem = chains({"a": [3, 3, 2, 1]}, sites=2)
    context = Context.of(problem)
    assert connected_assign(context.load, context.load.present).tolist() == [0, 1, 0, 1]
