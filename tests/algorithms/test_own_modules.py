"""Classes of a user's own, in modules that a command line or Python names; nothing else may name one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.algorithms.catalogue import Deciding, known_policy, make_decider, make_policy, policy_of
from mooring.contracts.policy import Policy
from mooring.errors import InputError

MODULE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Mine:
    name = "mine"
    about = "network"
    share: float = 0.5
    limit: "int | None" = 3

    def unsupported(self, problem): ...
    def place(self, problem, context): ...

@dataclass(frozen=True)
class Odd(Mine):
    about = "luck"

@dataclass(frozen=True)
class Picky(Mine):
    def __post_init__(self):
        raise ValueError("not today")

class Decides:
    name = "decides"
    def decide(self, picture): ...

def function(): ...
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """On the path, with modules that no other test sees."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_module.py").write_text(MODULE)
    (tmp_path / "broken_module.py").write_text("import nothing_like_it")
    (tmp_path / "wrong_module.py").write_text("1 +")
    (tmp_path / "ending_module.py").write_text("raise SystemExit(3)")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.endswith("_module"):
            del sys.modules[name]


def test_settings_of_an_own_policy_are_python_values_or_words() -> None:
    for settings in ({"share": 0.25, "limit": None}, {"share": "0.25", "limit": "none"}):
        made = policy_of("mine_module:Mine", settings)
        assert isinstance(made, Policy)
        assert (made.name, vars(made)) == ("mine", {"share": 0.25, "limit": None})


def test_an_own_decider_is_made_like_one_of_the_catalogue() -> None:
    assert make_decider("mine_module:Decides").name == "decides"


def test_an_object_is_taken_as_it_is() -> None:
    own = policy_of("mine_module:Mine")
    assert policy_of(own) is own


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("mine_modul:Mine", {}, "no Python module 'mine_modul'.*current folder"),
        ("mine_module.deeper:Mine", {}, "cannot be imported|no Python module 'mine_module.deeper'"),
        ("broken_module:Mine", {}, "'broken_module' cannot be imported.*nothing_like_it"),
        ("wrong_module:Mine", {}, "'wrong_module' cannot be imported: SyntaxError"),
        ("ending_module:Mine", {}, "'ending_module' cannot be imported: SystemExit"),
        ("mine_module:Mien", {}, r"'Mien', expected a class of the module.*mine_module\.py.*'Mine'"),
        ("mine_module:function", {}, "no class but a function"),
        ("mine_module:Decides", {}, "not a policy: it lacks about, unsupported, place"),
        ("mine_module:Odd", {}, "about 'luck', expected one of 'resilience', 'network', 'latency'"),
        ("mine_module:Picky", {}, "cannot be made: ValueError: not today"),
        ("mine_module:Mine", {"shares": 1}, "'shares', expected a setting of mine_module:Mine.*'share'"),
        ("mine_module:Mine", {"share": "much"}, "'much', expected a number"),
        ("mine_module:Decides", {"share": 1}, "'share', expected a setting of mine_module:Decides"),
        ("mine_module.py:Mine", {}, "expected MODULE:NAME"),
        ("./mine_module.py:Mine", {}, "expected MODULE:NAME"),
        ("mine_module:", {}, "expected MODULE:NAME"),
    ],
)
def test_what_is_wrong_is_an_input_error_that_names_it(
    name: str, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words) as raised:
        policy_of(name, settings, "--policy")
    assert name.partition(":")[0] in str(raised.value)


def test_a_field_without_default_has_to_be_set(folder: Path) -> None:
    (folder / "needing_module.py").write_text(MODULE.replace("share: float = 0.5", "share: float"))
    with pytest.raises(InputError, match=r"no default for its setting 'share'.*share=VALUE"):
        policy_of("needing_module:Mine")
    assert vars(policy_of("needing_module:Mine", {"share": 1}))["share"] == 1.0


def test_a_policy_is_no_decider() -> None:
    with pytest.raises(InputError, match="not a decider: it lacks decide"):
        make_decider("mine_module:Mine", Deciding())


def test_a_class_in_place_of_an_object_is_told_apart() -> None:
    kind = type(policy_of("mine_module:Mine"))
    with pytest.raises(InputError, match=r"the class Mine, expected an object of it.*Mine\(\)"):
        policy_of(kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("refused", [make_policy, lambda name: known_policy(name, "policy")])
def test_what_files_and_requests_are_read_by_refuses_a_module_and_imports_nothing(
    refused: object, folder: Path
) -> None:
    (folder / "telling_module.py").write_text("raise AssertionError('it was imported')")
    with pytest.raises(InputError, match=r"Python module 'telling_module:X'.*only a command line or Python"):
        refused("telling_module:X")  # type: ignore[operator]
    assert "telling_module" not in sys.modules
