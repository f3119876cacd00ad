"""The graph as a tree says where operators run, and shows those that no stream feeds."""

from __future__ import annotations

import io

from rich.console import Console

from mooring.cli.output.graph_tree import GraphTree
from mooring.model.problem.problem import Problem


def shown(sites: dict[str, str] | None = None) -> str:
    problem = Problem.from_dict(
        {
            "sites": {"oslo": {"capacity": 1}, "rome": {"capacity": 1}},
            "streams": {"x": {"rate": 1}},
            "operators": {
                "f": {"inputs": ["x"], "cost_us": 1, "fragment": "f", "site": "oslo"},
                "g": {"inputs": ["f"], "cost_us": 1, "fragment": "g"},
                "alone": {"inputs": [], "fixed_cores": 0.1, "fragment": "alone"},
                "after": {"inputs": ["alone"], "fragment": "after", "cost_us": 1},
            },
        }
    )
    out = io.StringIO()
    Console(file=out, width=100).print(GraphTree(problem, sites=sites).build())
    return out.getvalue()


def test_an_operator_that_no_stream_feeds_is_shown_with_what_reads_it() -> None:
    assert "alone → after" in shown()
    assert "f pinned to oslo → g" in shown()


def test_a_placement_is_shown_in_the_graph() -> None:
    text = shown({"f": "oslo", "g": "rome", "alone": "rome", "after": "oslo"})
    assert "f at oslo → g at rome" in text
    assert "alone at rome → after at oslo" in text
    assert "pinned" not in text
