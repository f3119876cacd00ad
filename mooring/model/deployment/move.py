"""A move, and lists of them: what a journal records, without what it takes to plan or judge them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from mooring.errors import InputError
from mooring.model.placement.placement import FragmentSites


@dataclass(frozen=True, order=True)
class Move:
    """One fragment from one site to another."""

    fragment: str
    from_site: str
    to_site: str

    def inverse(self) -> Move:
        return Move(self.fragment, self.to_site, self.from_site)


def moves_fingerprint(old: FragmentSites, moves: Sequence[Move]) -> str:
    """Names one list of moves from one placement: exactly these, in this order."""
    text = json.dumps([sorted(old.items()), [[m.fragment, m.from_site, m.to_site] for m in moves]])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def apply_moves(sites: FragmentSites, moves: Sequence[Move]) -> FragmentSites:
    """Where everything is after the moves; a move from where its fragment is not is refused."""
    result = dict(sites)
    for move in moves:
        if result.get(move.fragment) != move.from_site:
            found = result.get(move.fragment)
            raise InputError(f"found {move.fragment!r} at {found!r}, expected it at {move.from_site!r}")
        result[move.fragment] = move.to_site
    return FragmentSites(result)
