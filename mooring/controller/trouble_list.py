"""The troubles of a run for an operator: since when, what they affect, and what to do.

The controller keeps troubles by name, each with one reason. Here each becomes an entry of the status file:
a stall with what the watch says of it, everything else by its kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from mooring.contracts.decider import STALLS, Stall
from mooring.controller.recovery import JOINS
from mooring.controller.run_state import RunState
from mooring.model.problem.problem import Problem

_LOG = "`mooring logs PROJECT --site {site}` shows its last lines"
_DO: Mapping[str, str] = {
    "site lost": f"an embedded site is started again by itself; start an existing endpoint yourself. {_LOG}",
    "site starting": "nothing: it is used as soon as it is up",
    "channel lost": "restore its folder from a copy, or start over with `mooring run PROJECT --fresh`",
    "given up": f"remove the cause, then `mooring stop` and `mooring run`. {_LOG}",
    "held": "restore what is missing; it is started as soon as that is back",
    "waiting": f"nothing as long as it is tried again by itself. {_LOG}",
    "data plane": "remove the cause; it is tried again several times a second",
    "advice": "nothing at once: rows arrive without it, and it is tried again",
    "measurement": "nothing at once: rows arrive without it, and it is tried again",
    "publishing": "nothing at once: rows arrive without it, and it is tried again",
}
"""By kind, the most urgent first. Between `waiting` and `data plane` come the stalls."""
_ORDER = [*list(_DO)[:6], *STALLS, *list(_DO)[6:]]


@dataclass(frozen=True)
class NamedTrouble:
    name: str
    """As among the troubles of the status."""
    kind: str
    what: str
    """The fragment, site, channel, stream or part."""
    site: str | None
    since_s: float
    """Seconds since 1970."""
    why: str
    affects: tuple[str, ...] = ()
    """Queries that get no rows, or late ones; fragments where no query is behind."""
    remedy: str = ""

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "affects": list(self.affects)}


class TroubleList:
    """One per run: give it the troubles of every look."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._since_s: dict[str, float] = {}

    def date_lost_sites(self, at_s: float) -> None:
        """Between two looks, so that a trouble begins when the event says that the site was lost."""
        for site in self._state.lost:
            self._since_s.setdefault(f"site {site}", at_s)

    def take(
        self, at_s: float, named: Mapping[str, str], stalls: Iterable[Stall]
    ) -> tuple[NamedTrouble, ...]:
        """Those of this look, the most urgent first, of one kind the oldest."""
        self._since_s = {name: self._since_s.get(name, at_s) for name in named}
        stalled = {each.title: each for each in stalls}
        found = [
            _of_stall(stalled[name]) if name in stalled else self._made(name, why)
            for name, why in named.items()
            if not self._is_meant(name)
        ]
        return tuple(sorted(found, key=lambda each: (_urgency(each.kind), each.since_s, each.name)))

    def _is_meant(self, name: str) -> bool:
        """A site that was left on purpose may be down: nothing runs there."""
        return name.removeprefix("site ") in self._state.drained and name.startswith("site ")

    def _made(self, name: str, why: str) -> NamedTrouble:
        state, problem, since_s = self._state, self._state.problem, self._since_s[name]
        kind, _, what = name.partition(": ")
        if kind in _DO and what:
            return NamedTrouble(name, kind, what, None, since_s, why, (), _DO[kind])
        if name in problem.fragment_names:
            status = state.status.get(name)
            kind, site = "waiting" if status is None else status.state, state.where.get(name)
            reason = why.removeprefix(f"{kind}: ")
            return self._told(name, kind, name, site, reason, [name])
        word, _, what = name.partition(" ")
        if word == "channel":
            return self._told(name, "channel lost", what, None, why, [what])
        if word == "site":
            kind = "site starting" if state.lost.get(what) == JOINS else "site lost"
            down = [
                fragment
                for fragment, site in state.where.items()
                if site == what and state.status[fragment].state not in ("running", "idle")
            ]
            return self._told(name, kind, what, what, why.removeprefix("lost: "), down)
        return NamedTrouble(name, "data plane", name, None, since_s, why, (), _DO["data plane"])

    def _told(
        self, name: str, kind: str, what: str, site: str | None, why: str, down: Collection[str]
    ) -> NamedTrouble:
        behind = affected(self._state.problem, fragments=down)
        affects = behind or tuple(each for each in down if each != what)
        remedy = _DO.get(kind, _DO["waiting"]).format(site=site)
        return NamedTrouble(name, kind, what, site, self._since_s[name], why, affects, remedy)


def affected(
    problem: Problem, *, fragments: Collection[str] = (), streams: Collection[str] = ()
) -> tuple[str, ...]:
    """Queries behind these fragments and streams, or the fragments behind them if no query is."""
    first = len(problem.streams)
    nodes = {problem.stream_index[name] for name in streams if name in problem.stream_index}
    for name, members in zip(problem.fragment_names, problem.fragments, strict=True):
        nodes |= {first + j for j in members} if name in fragments else set()
    frontier = list(nodes)
    while frontier:
        for j in problem.graph.readers[frontier.pop()]:
            if first + j not in nodes:
                nodes.add(first + j)
                frontier.append(first + j)
    reached = {node - first for node in nodes if node >= first}
    behind = {problem.operators[j].logical_name for j in reached}
    queries = [query.name for query in problem.queries if query.reads in behind]
    named = zip(problem.fragment_names, problem.fragments, strict=True)
    return tuple(queries or (name for name, own in named if reached & set(own) and name not in fragments))


def _of_stall(stall: Stall) -> NamedTrouble:
    return NamedTrouble(
        stall.title, stall.kind, stall.name, stall.site, stall.since_s, stall.why, stall.affects, stall.remedy
    )


def _urgency(kind: str) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
