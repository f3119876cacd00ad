"""The query graph as a tree that fits on a screen: one branch per stream, chains on one line."""

from __future__ import annotations

from rich.markup import escape
from rich.tree import Tree

from mooring.problem.operator import Operator
from mooring.problem.problem import Problem

MAX_LINES = 40


class GraphTree:
    """Operators read by several others appear below the first of their inputs and are named at the others."""

    def __init__(self, problem: Problem, max_lines: int = MAX_LINES) -> None:
        self._problem = problem
        self._instances = _instances(problem)
        self._readers = _readers(problem)
        self._queries: dict[str, list[str]] = {}
        for query in problem.queries:
            self._queries.setdefault(query.reads, []).append(f"{query.name} at {query.site}")
        self._shown: set[str] = set()
        self._lines_left = max_lines

    def build(self) -> Tree:
        root = Tree("[bold]streams and their operators[/bold]", guide_style="dim")
        for stream in self._problem.streams:
            at = f" at {stream.site}" if stream.site else ""
            label = f"[cyan]{escape(stream.name)}[/cyan] {stream.rate:g}/s{escape(at)}"
            self._grow(root, label, self._readers.get(stream.name, []))
        for name, instances in self._instances.items():
            if name not in self._shown and instances[0].load is not None:
                self._grow(root, self._label(name), [])
        missing = len(self._instances) - len(self._shown)
        if missing:
            root.add(f"[dim]... and {missing} operators more[/dim]")
        return root

    def _grow(self, root: Tree, root_label: str, first_readers: list[str]) -> None:
        """Depth first with a stack of its own: graphs may be deeper than Python recurses."""
        stack = [(root, root_label, first_readers)]
        while stack and self._lines_left > 0:
            branch, label, readers = stack.pop()
            while len(readers) == 1 and readers[0] not in self._shown:
                label += f" [dim]→[/dim] {self._label(readers[0])}"
                readers = self._readers.get(readers[0], [])
            self._lines_left -= 1
            node = branch.add(label)
            new: list[tuple[Tree, str, list[str]]] = []
            for reader in readers:
                if reader in self._shown:
                    node.add(f"[dim]→ {escape(reader)}, shown elsewhere[/dim]")
                    self._lines_left -= 1
                else:
                    new.append((node, self._label(reader), self._readers.get(reader, [])))
            stack += reversed(new)

    def _label(self, name: str) -> str:
        self._shown.add(name)
        instances = self._instances[name]
        first, label = instances[0], escape(name)
        if len(instances) > 1:
            label += f" [dim]×{len(instances)}[/dim]"
        if first.kind == "join":
            label += " [magenta]join[/magenta]"
        if first.variable:
            label += " [magenta]variable[/magenta]"
        if first.site is not None:
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
