"""Every policy by name, and how a name and settings in words become a policy.

A policy's module is loaded when the policy is asked for: planning with one of them does not wait for what the
others need.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from mooring.errors import InputError
from mooring.model.problem.reading.fields import refuse_reference

if TYPE_CHECKING:
    from mooring.contracts.policy import Policy

POLICIES = {
    "rod": "mooring.algorithms.rod.policy:Rod",
    "resilient": "mooring.algorithms.resilient.policy:Resilient",
    "random": "mooring.algorithms.baselines.random_placement:Random",
    "llf": "mooring.algorithms.baselines.llf:LargestLoadFirst",
    "max_rate": "mooring.algorithms.baselines.max_rate:MaxRate",
    "connected": "mooring.algorithms.baselines.connected:Connected",
    "correlation": "mooring.algorithms.baselines.correlation:Correlation",
    "optimal": "mooring.algorithms.exact.policy:Optimal",
    "relaxation": "mooring.algorithms.relaxation.policy:Relaxation",
    "overlay": "mooring.algorithms.overlay.policy:Overlay",
    "producer": "mooring.algorithms.baselines.network_baselines:Producer",
    "consumer": "mooring.algorithms.baselines.network_baselines:Consumer",
    "ants": "mooring.algorithms.ants.policy:Ants",
    "descent": "mooring.algorithms.ants.descent:Descent",
    "ip_multicast": "mooring.algorithms.baselines.network_baselines:IpMulticast",
}
"""Where each policy is: its module and its class."""

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def make_policy(name: str, settings: Mapping[str, object] | None = None) -> Policy:
    """The policy of that name; settings are Python values, or in words as `--set NAME=VALUE` gives them.

    >>> make_policy("random", {"balanced": False}), make_policy("random", {"balanced": "false"})
    (Random(balanced=False), Random(balanced=False))
    """
    if name not in POLICIES:
        refuse_reference(name, POLICIES, "policy", "a policy")
    kind = policy_class(name)
    hints = get_type_hints(kind)
    known = [field.name for field in dataclasses.fields(kind)]
    values: dict[str, object] = {}
    for setting, given in (settings or {}).items():
        if setting not in known:
            refuse_reference(setting, known, f"{name}.{setting}", f"a setting of policy {name}")
        text = "none" if given is None else str(given)
        values[setting] = parse_setting(text, hints[setting], f"{name}.{setting}")
    policy: Policy = kind(**values)
    return policy


def policy_class(name: str) -> type[Any]:
    """The dataclass of a known policy."""
    module, _, kind = POLICIES[name].partition(":")
    found: type[Any] = getattr(import_module(module), kind)
    return found


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
