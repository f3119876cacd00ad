"""Every decider by the name that `--adapt` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mooring.algorithms.ants.central_decider import BETA, AntsDecider
from mooring.algorithms.ants.policy import Ants
from mooring.algorithms.baselines.none_decider import NoneDecider
from mooring.algorithms.catalogue import make_policy
from mooring.algorithms.headroom.decider import HeadroomDecider
from mooring.algorithms.overlay.central_decider import OverlayDecider
from mooring.algorithms.relaxation.central_decider import RelaxationDecider
from mooring.algorithms.replan.decider import ReplanDecider, ReplanOptions
from mooring.contracts.decider import Decider
from mooring.model.problem.reading.fields import refuse_reference


@dataclass(frozen=True)
class Deciding:
    """What a decider may need beside its name."""

    policy: str = "rod"
    """That replans."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of that policy; of `ants` where ants decide."""
    seed: int = 0
    trigger_s: float = 0.0
    """Between the micro-batches that fragments run in; 0: they run tuple by tuple."""


def _ants(settings: Mapping[str, str]) -> Ants:
    policy = make_policy("ants", {"beta": BETA, **settings})
    assert isinstance(policy, Ants)
    return policy


DECIDERS: Mapping[str, Callable[[Deciding], Decider]] = {
    "none": lambda asked: NoneDecider(),
    "headroom": lambda asked: HeadroomDecider(),
    "replan": lambda asked: ReplanDecider(
        make_policy(asked.policy, asked.settings), ReplanOptions(asked.seed)
    ),
    "relaxation": lambda asked: RelaxationDecider(seed=asked.seed),
    "ants": lambda asked: AntsDecider(_ants(asked.settings), asked.seed, trigger_s=asked.trigger_s),
    "overlay": lambda asked: OverlayDecider(seed=asked.seed),
}

TAKE_SETTINGS = ("replan", "ants")
"""Deciders that settings are for."""


def make_decider(name: str, asked: Deciding | None = None) -> Decider:
    """
    >>> make_decider("headroom").name
    'headroom'
    """
    if name not in DECIDERS:
        refuse_reference(name, DECIDERS, "--adapt", "a decider")
    return DECIDERS[name](asked or Deciding())
