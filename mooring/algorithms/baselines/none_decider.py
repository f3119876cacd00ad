"""Never moves anything: the baseline of all deciders, and `--adapt none`."""

from __future__ import annotations

from typing import ClassVar

from mooring.contracts.decider import DeciderWish, Proposal
from mooring.contracts.picture import Picture


class NoneDecider:
    name: ClassVar[str] = "none"

    def decide(self, picture: Picture) -> Proposal:
        return Proposal(picture.predict(picture.sites), (), "adapting is off (--adapt none)")


def decider(wish: DeciderWish) -> NoneDecider:
    return NoneDecider()
