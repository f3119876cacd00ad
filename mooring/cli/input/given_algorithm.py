"""The policy or decider that a command line names: from the catalogue, or a class in a Python module."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from mooring.algorithms.catalogue import DECIDERS, TAKE_SETTINGS, Deciding, make_decider, policy_of
from mooring.algorithms.own_modules import names_module
from mooring.contracts.decider import Decider
from mooring.contracts.policy import Policy
from mooring.errors import InputError

POLICY_HELP = "policy to place with, see `mooring policies`, or MODULE:NAME"
DECIDER_HELP = f"{', '.join(DECIDERS)}, or MODULE:NAME"

ADAPT_SET_HELP = (
    "setting of the decider, of the policy that it decides with, or of your own decider; repeatable; "
    "a name that is not known is answered with the nearest"
)


def given_policy(name: str, settings: Mapping[str, str], field: str = "--policy") -> Policy:
    look_here(name)
    return policy_of(name, settings, field)


def given_decider(name: str, asked: Deciding, field: str) -> Decider:
    """`field`: the option that gives its settings."""
    if asked.settings and name not in TAKE_SETTINGS and not names_module(name):
        raise InputError(
            f"found settings for --adapt {name}, which takes none",
            field=field,
            remedy=f"use --adapt {', '.join(TAKE_SETTINGS)} or a decider of your own, or leave them out",
        )
    for each in (name, asked.policy):
        look_here(each)
    return make_decider(name, asked)


def look_here(name: str) -> None:
    """Modules are found in the current folder first, as `python -m` does it."""
    here = str(Path.cwd())
    if names_module(name) and here not in sys.path:
        sys.path.insert(0, here)
