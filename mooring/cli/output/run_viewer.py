"""Shows a run while it goes on: a live view on a terminal, a line now and then where there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.markup import escape

from mooring.cli.output.graph_tree import GraphTree
from mooring.cli.output.live_view import one_line, run_view
from mooring.cli.output.terminal import Terminal
from mooring.contracts.decider import Proposal
from mooring.controller.cycle import Look
from mooring.controller.run_headroom import RunHeadroom
from mooring.spark.engine.snapshot import Snapshot
from mooring.spark.runs.run_recorder import RunBook

_LINE_EVERY_S = 10.0
_GRAPH_LINES = 12
"""Of the placement in a live view, which has to fit on a screen."""


class RunViewer:
    def __init__(self, terminal: Terminal, book: RunBook, how_to_apply: str, where: str = "") -> None:
        """`how_to_apply`: the command that has a proposal carried out; `where`: where the data is."""
        self._where = where
        self._terminal, self._book, self._how_to_apply = terminal, book, how_to_apply
        self._live: Live | None = None
        self._last_line_s = -_LINE_EVERY_S
        self._said: tuple[Any, ...] = ()

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        if self._terminal.as_json or not self._terminal.out.is_terminal:
            yield
            return
        with Live(console=self._terminal.out, auto_refresh=False) as self._live:
            yield
        self._live = None

    def show(self, look: Look) -> None:
        """To be called with every look of the session."""
        assert self._book.snapshot is not None
        self._say_once(look.proposal)
        self._draw(self._book.snapshot, look.headroom)

    def _draw(self, snapshot: Snapshot, headroom: RunHeadroom) -> None:
        if self._live is not None:
            sites = {name: fragment.site for name, fragment in snapshot.fragments.items()}
            graph = GraphTree(self._book.problem, _GRAPH_LINES, sites).build()
            view = Group(graph, run_view(snapshot, headroom.as_json(), self._where))
            self._live.update(view, refresh=True)
        elif snapshot.since_start_s - self._last_line_s >= _LINE_EVERY_S:
            self._last_line_s = snapshot.since_start_s
            self._terminal.print(escape(f"{one_line(snapshot)}; headroom {headroom.words()}"))

    def _say_once(self, proposal: Proposal | None) -> None:
        """A proposal is said when it is new."""
        if proposal is None:
            return
        moves = tuple(each.move for each in proposal.moves)
        if moves and moves != self._said:
            self._terminal.print(escape(f"{proposal.reason}: {self._how_to_apply}"))
        self._said = moves
