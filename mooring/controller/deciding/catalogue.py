"""Every decider by the name that `--adapt` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.controller.deciding.decider import Decider
from mooring.controller.deciding.headroom_decider import HeadroomDecider
from mooring.controller.deciding.none_decider import NoneDecider
from mooring.problem.reading.fields import refuse_reference

DECIDERS: Mapping[str, Callable[[], Decider]] = {
    "none": NoneDecider,
    "headroom": HeadroomDecider,
}


def make_decider(name: str) -> Decider:
    """
    >>> make_decider("headroom").name
    'headroom'
    """
    if name not in DECIDERS:
        refuse_reference(name, DECIDERS, "--adapt", "a decider")
    return DECIDERS[name]()
