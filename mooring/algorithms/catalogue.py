"""Every algorithm by name, one entry each: where its policy, its decider and its machines at sites are.

An entry names modules, and each is loaded when it is needed. Planning with one policy does not wait for what
the others import, and an agent beside a site loads only the machines that it hosts. An entry says what an
algorithm *can* be; a run says what it *was*: decided in one place, or at the sites.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from mooring.algorithms.own_modules import made_of, names_module, own_class, refuse_module, require_kind
from mooring.errors import InputError
from mooring.model.problem.reading.fields import name as name_field
from mooring.model.problem.reading.fields import refuse_reference

if TYPE_CHECKING:
    from mooring.contracts.decider import Decider
    from mooring.contracts.hosted_protocol import HostedProtocol
    from mooring.contracts.policy import Policy
    from mooring.contracts.site_machine import MakeMachine
    from mooring.coordination.briefing import Brief
    from mooring.model.problem.problem import Problem


CENTRAL = "-central"
"""At the end of a decider's name: it takes the place of the machines of its algorithm, and decides in one
place."""


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """All fields but the first two are `module:name`, below `mooring.algorithms`; empty: it has none."""

    name: str
    paper: str = ""
    """Whose algorithm it is; empty: a yardstick or our own."""
    policy: str = ""
    """The dataclass of its parameters, which makes placements (`--policy`)."""
    decider: str = ""
    """Makes a `Decider` of a `DeciderWish`, where moves are decided in one place (`--adapt`)."""
    decides_with: str = ""
    """The policy that the decider is given, with the settings on the command line; `*`: the one asked for."""
    machines: str = ""
    """Makes the `HostedProtocol` of its machines at sites (`mooring agent --hosts`)."""
    briefing: str = ""
    """Makes what the runner tells those machines, and what of their proposals is worth it."""
    simulated: str = ""
    """Makes the machines of a problem's simulated sites (`simulate --adapt`) of the problem and the settings;
    empty: none are simulated."""
    settings: str = ""
    """The dataclass of what can be set of its decider and its simulated machines (`--adapt-set`), beside the
    parameters of `decides_with`."""

    @property
    def deciders(self) -> tuple[str, ...]:
        """What `--adapt` calls them: by its own name what decides best where it runs, and by another the one
        that takes the place of its machines.
        """
        if not self.decider:
            return ()
        return (self.name, self.name + CENTRAL) if self.machines else (self.name,)


_ALL = (
    Algorithm("rod", "ROD", "rod.policy:Rod"),
    Algorithm("resilient", "ROD", "resilient.policy:Resilient"),
    Algorithm("auto", policy="combined.auto:Auto"),
    Algorithm("combined", policy="combined.policy:Combined"),
    Algorithm("random", policy="baselines.random_placement:Random"),
    Algorithm("llf", policy="baselines.llf:LargestLoadFirst"),
    Algorithm("max_rate", policy="baselines.max_rate:MaxRate"),
    Algorithm("connected", policy="baselines.connected:Connected"),
    Algorithm("correlation", policy="baselines.correlation:Correlation"),
    Algorithm("optimal", policy="exact.policy:Optimal"),
    Algorithm("none", decider="baselines.none_decider:decider"),
    Algorithm("headroom", decider="headroom.decider:decider", settings="headroom.decider:HeadroomOptions"),
    Algorithm(
        "replan",
        decider="replan.decider:decider",
        decides_with="*",
        settings="replan.decider:ReplanOptions",
    ),
    Algorithm(
        "relaxation",
        "SBON",
        "relaxation.policy:Relaxation",
        "relaxation.central_decider:decider",
        machines="relaxation.hosted:hosted_optimisers",
        briefing="relaxation.briefing:optimiser_briefing",
        simulated="relaxation.machines.fragment_specs:simulated_optimisers",
        settings="relaxation.machines.settings:RelaxationSettings",
    ),
    Algorithm(
        "overlay",
        "adaptive overlays",
        "overlay.policy:Overlay",
        "overlay.central_decider:decider",
        machines="overlay.hosted:hosted_overlays",
        briefing="overlay.briefing:overlay_briefing",
        simulated="overlay.hosted:simulated_overlays",
        settings="overlay.settings:OverlaySettings",
    ),
    Algorithm("producer", policy="baselines.network_baselines:Producer"),
    Algorithm("consumer", policy="baselines.network_baselines:Consumer"),
    Algorithm(
        "ants",
        "ants",
        "ants.policy:Ants",
        "ants.central_decider:decider",
        "ants",
        "ants.hosted:hosted_ants",
        "ants.briefing:ants_briefing",
    ),
    Algorithm("descent", policy="ants.descent:Descent"),
    Algorithm("ip_multicast", policy="baselines.network_baselines:IpMulticast"),
)
ALGORITHMS: Mapping[str, Algorithm] = {each.name: each for each in _ALL}
POLICIES = tuple(each.name for each in _ALL if each.policy)
DECIDERS = tuple(name for each in _ALL for name in each.deciders)
TAKE_SETTINGS = tuple(name for each in _ALL if each.decides_with or each.settings for name in each.deciders)
"""Deciders that `--adapt-set` is for."""
HOSTED = tuple(each.name for each in _ALL if each.machines)
"""What agents can host, and what can decide at the sites."""

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def make_policy(name: str, settings: Mapping[str, object] | None = None) -> Policy:
    """The policy of that name in the catalogue; settings are Python values, or in words as `--set NAME=VALUE`
    gives them.

    >>> make_policy("random", {"balanced": False}), make_policy("random", {"balanced": "false"})
    (Random(balanced=False), Random(balanced=False))
    """
    known_policy(name, "policy")
    kind = policy_class(name)
    policy: Policy = kind(**_values(kind, settings or {}, name, f"policy {name}"))
    return policy


def known_policy(value: object, path: str) -> str:
    """A name of the catalogue, where files or REST give one."""
    found = name_field(value, path)
    if found not in POLICIES:
        refuse_module(found, path, "a policy")
        refuse_reference(found, POLICIES, path, "a policy")
    return found


def policy_of(
    given: str | Policy, settings: Mapping[str, object] | None = None, field: str = "policy"
) -> Policy:
    """A policy as a command line or Python gives it: an object, a name of the catalogue, or a class of a
    user's own (`my_module:MyPolicy`)."""
    if isinstance(given, str) and not names_module(given):
        return make_policy(given, settings)
    if isinstance(given, str):
        own: Policy = _own(given, settings or {}, "a policy", field)
        return own
    require_kind(given, "a policy", getattr(given, "__name__", type(given).__name__), field)
    if settings:
        raise InputError(
            f"found settings beside an object of {type(given).__name__}",
            field="settings",
            remedy="pass them to its constructor",
        )
    return given


def _own(name: str, settings: Mapping[str, object], what: str, field: str) -> Any:
    kind = own_class(name, field)
    made = made_of(kind, _values(kind, settings, name, name), name, field)
    require_kind(made, what, name, field)
    return made


def _values(kind: type[Any], settings: Mapping[str, object], name: str, whose: str) -> dict[str, object]:
    """Settings by the types of the fields they are for."""
    if not settings:
        return {}
    known = [each.name for each in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    values: dict[str, object] = {}
    for setting, given in settings.items():
        if setting not in known:
            refuse_reference(setting, known, f"{name}.{setting}", f"a setting of {whose}")
        text = "none" if given is None else str(given)
        values[setting] = parse_setting(text, _hints(kind, name)[setting], f"{name}.{setting}")
    return values


def _hints(kind: type[Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except NameError as unknown:
        raise InputError(
            f"the type of a setting of {name} is not known: {unknown}",
            remedy="import it where the module runs, not only for type checkers",
        ) from None


def policy_class(name: str) -> type[Any]:
    """The dataclass of a known policy."""
    found: type[Any] = _loaded(ALGORITHMS[name].policy)
    return found


def module_of(place: str) -> tuple[str, str]:
    """The whole name of the module that an entry names, and what of it."""
    module, _, what = place.partition(":")
    return f"{__package__}.{module}", what


def _loaded(place: str) -> Any:
    module, what = module_of(place)
    return getattr(import_module(module), what)


@dataclasses.dataclass(frozen=True)
class Deciding:
    """What is asked of a decider beside its name."""

    policy: str = "rod"
    """That replans."""
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Of the decider, or of the policy that it decides with."""
    seed: int = 0
    trigger_s: float = 0.0
    """Between the micro-batches that fragments run in; 0: they run tuple by tuple."""


def make_decider(name: str, asked: Deciding | None = None) -> Decider:
    """The decider of that name, or the one that takes the place of its machines; also a class of a user's own
    (`my_module:MyDecider`), so no file and no request may give the name.

    >>> make_decider("headroom").name, make_decider("ants").name
    ('headroom', 'ants-central')
    """
    if names_module(name):
        own: Decider = _own(name, (asked or Deciding()).settings, "a decider", "--adapt")
        return own
    if name not in DECIDERS:
        refuse_reference(name, DECIDERS, "--adapt", "a decider")
    from mooring.contracts.decider import DeciderWish  # loads what planning does not need

    entry, asked = ALGORITHMS[name.removesuffix(CENTRAL)], asked or Deciding()
    policy_name = asked.policy if entry.decides_with == "*" else entry.decides_with
    options, left = decider_options(name, asked.settings, policy_name)

    def policy(**defaults: object) -> Policy:
        return policy_of(policy_name, {**defaults, **left})

    made: Decider = _loaded(entry.decider)(DeciderWish(policy, asked.seed, asked.trigger_s, options))
    return made


def decider_options(
    name: str, settings: Mapping[str, object], policy: str = ""
) -> tuple[Any, Mapping[str, object]]:
    """What an entry says can be set of its decider and machines, and the settings left for the policy that it
    decides with. None: as they are unless set.
    """
    entry = ALGORITHMS[name.removesuffix(CENTRAL)]
    if not entry.settings:
        return None, settings
    kind = _loaded(entry.settings)
    own = {field.name for field in dataclasses.fields(kind)}
    given = {key: value for key, value in settings.items() if key in own or not policy}
    left = {key: value for key, value in settings.items() if key not in given}
    return (kind(**_values(kind, given, name, f"--adapt {name}")) if given else None), left


def hosted_protocol(name: str) -> HostedProtocol:
    """The machines of an algorithm as agents host them."""
    made: HostedProtocol = _loaded(ALGORITHMS[name].machines)()
    return made


def simulated_machines(
    name: str, problem: Problem, settings: Mapping[str, object] | None = None
) -> MakeMachine:
    """The machines of an algorithm at the simulated sites of a problem."""
    options, _ = decider_options(name, settings or {})
    made: MakeMachine = _loaded(ALGORITHMS[name].simulated)(problem, options)
    return made


def briefing_of(name: str, stand_in: Decider | None = None, *, states_latency: bool = False) -> Brief:
    """`stand_in`: the decider that would stand in for the machines in one place, which has the settings.
    `states_latency`: the problem's latencies count, whatever machines measure.
    """
    return partial(_loaded(ALGORITHMS[name].briefing), stand_in=stand_in, states_latency=states_latency)


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
