"""The commands in the README do what it shows. Plans may improve, so only `check` is compared in full."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring

ROOT = Path(__file__).parent.parent.parent
BLOCKS = re.findall(
    r"^```console\n\$ mooring ([^\n]*)\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_a_command_of_the_readme_works(
    mooring: Mooring, monkeypatch: pytest.MonkeyPatch, command: str, shown: str
) -> None:
    monkeypatch.chdir(ROOT)
    result = mooring(*command.split())
    assert result.code == 0
    printed = [line.rstrip() for line in result.out.splitlines() if line.strip()]
    expected = [line.rstrip() for line in shown.splitlines() if line.strip()]
    assert len(printed) > 1
    assert printed[0] == expected[0]
    if command.startswith("check"):
        assert printed == expected


def test_the_readme_shows_commands_and_a_picture_that_is_there() -> None:
    assert len(BLOCKS) >= 4
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", (ROOT / "README.md").read_text())
    assert pictures
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_the_examples_are_sound_problems(mooring: Mooring) -> None:
    examples = sorted((ROOT / "examples").glob("*.yaml"))
    assert len(examples) >= 3
    for path in examples:
        document = mooring("check", path, "--json").document
        assert document["feasible"], path
        assert document["warnings"] == [], path
