"""What those who ask were told, and where everything has to be because of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from mooring.model.deployment.moves import Move
from mooring.model.placement.placement import FragmentSites
from mooring.simulator.runs.memory_mailbox import Tray

if TYPE_CHECKING:
    from lab.session_faults.process import Process


@dataclass
class _List:
    name: str
    old: FragmentSites
    moves: Sequence[Move]
    aborted: bool = False
    told: bool = False
    """That a step of it is done, by a process that owned the run then."""


@dataclass
class Promises:
    tray: Tray
    vague: set[str] = field(default_factory=set)
    """Fragments that something else may have put anywhere."""
    may_be: list[dict[str, str]] = field(default_factory=list)
    """One of these holds, for the fragments that it names."""
    open: list[_List] = field(default_factory=list)

    def asked(self, name: str, old: FragmentSites, moves: Sequence[Move]) -> None:
        self.open.append(_List(name, old, moves))

    def aborted(self) -> None:
        for each in self.open:
            each.aborted = True

    def forget(self) -> None:
        """Somebody has given another placement."""
        self.may_be, self.open = [], []

    def heard(self, process: Process, what: str, fields: Mapping[str, object]) -> None:
        """Recovery that puts something elsewhere says so in the journal; so does a list that begins."""
        self.settle()
        if what == "own the storage":
            self.cut()
        if what == "journal turned back":  # a move failed: from here on the list can only be undone
            self.aborted()
        if process.own_newest():
            for each in self.open:
                each.told |= "done" in _reached(self.tray.answer(each.name))
        if what == "journal list":
            touched = {fragment for fragment, _, _ in cast(Any, fields["moves"])}
            self._let_go(touched)
            self.vague -= touched  # from now on it is this list that says where they are
        elif what == "journal left":  # the next process keeps nothing at that site
            self._let_go({n for known in self.may_be for n, at in known.items() if at == fields["site"]})
        elif what == "journal relocated":
            self._let_go(set(cast(Any, fields["sites"])))
        elif what == "journal placement" and fields["why"] == "started again after a fault":
            placed = cast("dict[str, str]", fields["placement"])
            if self.may_be:
                wrong = {name for known in self.may_be for name, at in known.items() if placed[name] != at}
                self._let_go(wrong)

    def _let_go(self, fragments: set[str]) -> None:
        self.may_be = [{n: at for n, at in known.items() if n not in fragments} for known in self.may_be]
        self.vague |= fragments if self.open else set()

    def settle(self) -> None:
        """Take in the answers that there are by now."""
        for each in list(self.open):
            answer = self.tray.answer(each.name)
            if answer is None or answer["state"] == "running":
                continue
            self.open.remove(each)
            if answer["state"] == "refused":
                continue
            if "the next `mooring run`" in str(answer.get("why")):
                self.may_be = _either(each)
            else:
                self.may_be, self.vague = [dict(cast(Any, answer["placement"]))], set()

    def cut(self) -> None:
        """Another process owns the run: what was told of a list counts until then."""
        for each in list(self.open):
            answer = self.tray.answer(each.name)
            if answer is None:
                continue  # still in the box
            self.open.remove(each)
            back = each.aborted or "taken back" in _reached(answer)
            old, moved = _either(each)
            self.may_be = [moved] if each.told and not back else [old, moved]

    def broken(self, placement: FragmentSites) -> str:
        self.settle()
        options = [{n: at for n, at in known.items() if n not in self.vague} for known in self.may_be]
        if not options or any(all(placement[n] == at for n, at in known.items()) for known in options):
            return ""
        return f"{dict(placement)}, expected {' or '.join(map(str, options))}"


def _either(listed: _List) -> list[dict[str, str]]:
    return [
        {move.fragment: move.from_site for move in listed.moves},
        {move.fragment: move.to_site for move in listed.moves},
    ]


def _reached(answer: Mapping[str, object] | None) -> list[str]:
    return (
        [] if answer is None else [step["reached"] for step in cast("list[dict[str, Any]]", answer["steps"])]
    )
