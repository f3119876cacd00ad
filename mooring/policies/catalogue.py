"""Every policy by name, and how a name and settings in words become a policy."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from mooring.errors import InputError
from mooring.placement.baselines.connected import Connected
from mooring.placement.baselines.correlation import Correlation
from mooring.placement.baselines.llf import LargestLoadFirst
from mooring.placement.baselines.max_rate import MaxRate
from mooring.placement.baselines.network_baselines import Consumer, IpMulticast, Producer
from mooring.placement.baselines.random_placement import Random
from mooring.placement.exact.optimal import Optimal
from mooring.placement.policy import Policy
from mooring.placement.relaxation.relaxation import Relaxation
from mooring.placement.resilient.resilient import Resilient
from mooring.placement.rod.rod import Rod
from mooring.problem.reading.fields import refuse_reference

POLICIES: dict[str, type[Any]] = {
    policy.name: policy
    for policy in (
        Rod,
        Resilient,
        Random,
        LargestLoadFirst,
        MaxRate,
        Connected,
        Correlation,
        Optimal,
        Relaxation,
        Producer,
        Consumer,
        IpMulticast,
    )
}

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def make_policy(name: str, settings: Mapping[str, str] | None = None) -> Policy:
    """The policy of that name; settings are values in words, as `--set NAME=VALUE` gives them.

    >>> make_policy("random", {"balanced": "false"})
    Random(balanced=False)
    """
    if name not in POLICIES:
        refuse_reference(name, POLICIES, "policy", "a policy")
    kind = POLICIES[name]
    hints = get_type_hints(kind)
    known = [field.name for field in dataclasses.fields(kind)]
    values: dict[str, object] = {}
    for setting, text in (settings or {}).items():
        if setting not in known:
            refuse_reference(setting, known, f"{name}.{setting}", f"a setting of policy {name}")
        values[setting] = parse_setting(text, hints[setting], f"{name}.{setting}")
    policy: Policy = kind(**values)
    return policy


def parse_setting(text: str, kind: Any, field: str) -> object:
    """A value from words, by the type of the field it is for."""
    if get_origin(kind) in (Union, types.UnionType):
        options = [option for option in get_args(kind) if option is not type(None)]
        if len(options) < len(get_args(kind)) and text.lower() in ("none", ""):
            return None
        return parse_setting(text, options[0], field)
    if get_origin(kind) is Literal:
        choices = [str(choice) for choice in get_args(kind)]
        if text not in choices:
            refuse_reference(text, choices, field, f"one of {', '.join(choices)}")
        return text
    if kind is bool:
        if text.lower() not in (*_TRUE, *_FALSE):
            raise InputError(f"found {text!r}, expected true or false", field=field)
        return text.lower() in _TRUE
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            expected = "a whole number" if kind is int else "a number"
            raise InputError(f"found {text!r}, expected {expected}", field=field) from None
    return text
