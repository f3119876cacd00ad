"""Who may change what in a run: each field of its state has one writer, and one table joins its parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import numpy as np

import mooring
from mooring.contracts.mailbox import Request
from mooring.controller import events
from mooring.controller.events import ROUTES, SERVED_BY, Event
from mooring.controller.initial_placement import Wish
from mooring.controller.run_state import WRITERS, RunState
from mooring.errors import EngineError
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Constant
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.runs.simulated_run import SimulatedRun, simulated_run

PROBLEM = Problem.from_dict(
    {
        "sites": {name: {"capacity": 4} for name in "ab"},
        "streams": {"x": {"rate": 10}},
        "operators": {name: {"inputs": ["x"], "cost_us": 100} for name in "fg"},
    }
)
OLD = FragmentSites({"f": "a", "g": "a"})


def started(folder: Path) -> SimulatedRun:
    engine = SimulatedEngine(PROBLEM, [Constant(10.0)], np.random.default_rng(0), horizon_s=1000.0)
    run = simulated_run(engine, folder, Wish("rod"))
    run.session.start(Placement.from_fragments(PROBLEM, OLD), "by hand")
    return run


def _written(module: Path) -> Iterator[str]:
    """Fields of something called `state` that a module assigns."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name in ("state", "_state") and node.attr in WRITERS:
                yield node.attr


def test_each_field_of_the_state_has_the_writer_that_is_stated() -> None:
    assert WRITERS.keys() == {field.name for field in fields(RunState)}
    writers: dict[str, set[str]] = {name: set() for name in WRITERS}
    for module in Path(mooring.__file__).parent.rglob("*.py"):
        for name in _written(module):
            writers[name].add(module.stem)
    assert writers == {name: {writer} for name, writer in WRITERS.items()}


def test_a_value_of_the_state_is_not_changed_in_place(tmp_path: Path) -> None:
    """What a part has read stays as it was, whatever happens meanwhile."""
    run = started(tmp_path)
    state = run.session.state
    before = {name: getattr(state, name) for name in ("where", "status", "lost", "drained", "resting")}
    copies = {name: type(value)(value) for name, value in before.items()}
    run.tray.ask_leave("b")
    run.session.turn()
    run.session.rest(["g"], "for the test")
    run.engine.lose_site("a")
    run.session.turn()
    assert before == copies
    assert all(getattr(state, name) != copies[name] for name in ("status", "lost", "drained", "resting"))


def test_every_event_and_request_has_somebody_who_receives_it(tmp_path: Path) -> None:
    assert ROUTES.keys() == set(get_args(Event))
    assert SERVED_BY.keys() == set(get_args(Request))
    session = started(tmp_path).session
    for routes in ROUTES.values():
        assert all(callable(getattr(session, route.part).on) for route in routes)
    for part in SERVED_BY.values():
        assert callable(getattr(session, part).serve)


def test_parts_do_not_know_one_another() -> None:
    """They import what they decide by, the state and the events, but no other part."""
    folder = Path(events.__file__).parent
    parts = ("supervision", "move_desk", "drained_sites", "adaptation", "records")
    for part in parts:
        tree = ast.parse((folder / f"{part}.py").read_text())
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not imported & {f"mooring.controller.{other}" for other in (*parts, "session")}, part


def test_the_lease_is_signed_and_the_status_shown_before_each_start(tmp_path: Path) -> None:
    """A start may take minutes, and no lease outlasts two of them unattended."""
    run = started(tmp_path)
    happened: list[str] = []

    def start(fragment: str, site: str) -> None:
        happened.append(f"start {fragment}")
        raise EngineError("did not answer within 120 s")

    run.engine.lose_site("a")
    run.engine.start = start  # type: ignore[method-assign]
    run.session.lease.sign = lambda: happened.append("sign")
    run.book.noticed = lambda sites, troubles, under_way: happened.append("show")  # type: ignore[method-assign]
    run.session.turn()
    first = happened.index("start f")
    assert happened[first - 2 : first + 4] == ["sign", "show", "start f", "sign", "show", "start g"]


def test_the_journal_knows_what_was_started_before_the_status_shows_it(tmp_path: Path) -> None:
    run = started(tmp_path)
    known: list[FragmentSites | None] = []
    run.book.placed = lambda sites: known.append(run.session.journal.placement())  # type: ignore[method-assign]
    run.engine.lose_site("a")
    run.session.turn()
    assert known == [run.engine.homes()] == [{"f": "b", "g": "b"}]
