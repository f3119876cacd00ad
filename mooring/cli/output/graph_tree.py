"""The query graph as a tree that fits on a screen: one branch per stream, chains on one line."""

from __future__ import annotations

from collections.abc import Mapping

from rich.markup import escape
from rich.tree import Tree

from mooring.model.problem.operator import Operator
from mooring.model.problem.problem import Problem
from mooring.quantity import decimal

MAX_LINES = 40


class GraphTree:
    """Operators read by several others appear below the first of their inputs and are named at the others."""

    def __init__(
        self,
        problem: Problem,
        max_lines: int = MAX_LINES,
        sites: Mapping[str, str] | None = None,
        loads: Mapping[str, float] | None = None,
    ) -> None:
        """`sites`: fragment -> where it runs, of a placement that is to be shown. `loads`: operator -> cores,
        its instances together.
        """
        self._problem = problem
        self._loads = loads or {}
        self._sites = sites or {}
        self._instances = _instances(problem)
        self._readers = _readers(problem)
        self._queries: dict[str, list[str]] = {}
        for query in problem.queries:
            self._queries.setdefault(query.reads, []).append(f"{query.name} at {query.site}")
        self._shown: set[str] = set()
        self._max_lines = max_lines

    def build(self) -> Tree:
        loads = ", with their load in cores" if self._loads else ""
        root = Tree(f"[bold]streams and their operators{loads}[/bold]", guide_style="dim")
        streams = self._problem.streams
        for k, stream in enumerate(streams[: self._max_lines]):
            at = f" at {stream.site}" if stream.site else ""
            label = f"[cyan]{escape(stream.name)}[/cyan] {decimal(stream.rate, 6)}/s{escape(at)}"
            # What earlier streams did not need is there for the later ones.
            self._max_lines -= self._grow(
                root, label, stream.name, max(2, self._max_lines // (len(streams) - k))
            )
        for name, instances in self._instances.items():
            sourceless = instances[0].load is None and not instances[0].inputs
            if sourceless and self._max_lines > 0:  # fed by no stream, such as a view of a file
                self._max_lines -= self._grow(root, self._label(name), name, max(2, self._max_lines))
        for name, instances in self._instances.items():
            if instances[0].load is not None and self._max_lines > 0:
                root.add(self._label(name))
                self._max_lines -= 1
        missing = len(self._instances) - len(self._shown)
        if missing:
            root.add(f"[dim]... and {missing} operators more[/dim]")
        return root

    def _grow(self, root: Tree, label: str, stream: str, lines: int) -> int:
        """The lines used. Depth first with a stack of its own: graphs may be deeper than Python recurses."""
        node, pending = self._add(root, label, stream)
        stack = [(node, name) for name in reversed(pending)]
        used = 1
        while stack and used < lines:
            branch, name = stack.pop()
            if name in self._shown:
                branch.add(f"[dim]{escape(name)} (elsewhere)[/dim]")
            else:
                node, pending = self._add(branch, self._label(name), name)
                stack += [(node, reader) for reader in reversed(pending)]
            used += 1
        return used

    def _add(self, branch: Tree, label: str, name: str) -> tuple[Tree, list[str]]:
        """One line for a node and the chain below it; what it forks into is left to the caller."""
        readers = self._readers.get(name, [])
        while len(readers) == 1 and readers[0] not in self._shown:
            label += f" [dim]→[/dim] {self._label(readers[0])}"
            readers = self._readers.get(readers[0], [])
        known = [escape(reader) for reader in readers if reader in self._shown]
        if known:
            label += f" [dim]→ {', '.join(known)} (elsewhere)[/dim]"
        return branch.add(label), [reader for reader in readers if reader not in self._shown]

    def _label(self, name: str) -> str:
        self._shown.add(name)
        instances = self._instances[name]
        first, label = instances[0], escape(name)
        if len(instances) > 1:
            label += f" [dim]x{len(instances)}[/dim]"
        if name in self._loads:
            label += f" {decimal(self._loads[name], 2)}"
        if first.kind == "join":
            label += " [magenta]join[/magenta]"
        if first.variable:
            label += " [magenta]variable[/magenta]"
        if (at := self._sites.get(str(first.fragment))) is not None:
            label += f" [yellow]at {escape(at)}[/yellow]"
        elif first.site is not None:
            label += f" [yellow]pinned to {escape(first.site)}[/yellow]"
        if name in self._queries:
            label += f" [green]⇒ {escape(', '.join(self._queries[name]))}[/green]"
        return label


def _instances(problem: Problem) -> dict[str, list[Operator]]:
    result: dict[str, list[Operator]] = {}
    for operator in problem.operators:
        result.setdefault(operator.logical_name, []).append(operator)
    return result


def _readers(problem: Problem) -> dict[str, list[str]]:
    readers: dict[str, dict[str, None]] = {}
    for operator in problem.operators:
        for source in operator.inputs:
            readers.setdefault(source, {})[operator.logical_name] = None
    return {source: list(own) for source, own in readers.items()}
