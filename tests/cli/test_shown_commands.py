"""The commands that the documents show work, and print what is shown.

A block marked `console` shows commands with their output, run in a folder that holds the examples; an output
left out is not compared, nor is how long planning took. Other blocks show commands whose files the reader
has: their options exist.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mooring.cli.main import asked_verb, build_parser

if TYPE_CHECKING:
    from tests.cli.conftest import Mooring

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND_LINE = ROOT / "docs" / "command-line.md"
NEEDS_SITES = ("init", "run", "profile", "status", "moves", "stop", "doctor", "logs")


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def commands(document: Path) -> list[str]:
    """Every command line of ours in a block without a language or with `console`."""
    text = "\n".join(
        content for language, content in BLOCK.findall(document.read_text()) if language in ("", "console")
    )
    lines = text.replace("\\\n", " ").replace("; mooring", "\nmooring").splitlines()
    return [line.removeprefix("$ ") for line in lines if re.match(r"(\$ )?mooring [a-z]", line)]


def shown(document: Path) -> list[tuple[str, str]]:
    """Commands with their output, from the blocks marked `console`."""
    blocks = [content for language, content in BLOCK.findall(document.read_text()) if language == "console"]
    return [
        (command, output)
        for block in blocks
        for command, output in re.findall(
            r"^\$ mooring ([^\n]*)\n(.*?)(?=^\$ |\Z)", block, re.DOTALL | re.MULTILINE
        )
    ]


def without_times(output: str) -> list[str]:
    """The lines of an output, however wide a column of times makes its table."""
    masked = re.sub(r"[\d.]+ ms\b", "TIME", output)
    return [re.sub(r" +|─+", " ", line).strip() for line in masked.splitlines() if line.strip()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with the examples beside it."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if commands(path)], ids=name_of)
def test_the_options_of_a_shown_command_exist(document: Path) -> None:
    for command in commands(document):
        words = shlex.split(command, comments=True)[1:]
        build_parser(asked_verb(words)).parse_args(words)


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if shown(path)], ids=name_of)
@pytest.mark.usefixtures("folder")
def test_a_shown_command_prints_what_is_shown(mooring: Mooring, document: Path) -> None:
    for command, output in shown(document):
        words = shlex.split(command, comments=True)
        if words[0] in NEEDS_SITES:
            continue
        result = mooring(*words)
        assert result.code == 0, result.err
        if output.strip():
            assert without_times(result.out) == without_times(output), command


@pytest.mark.parametrize("verb", ["check", "plan", "evaluate", "compare", "headroom", "simulate"])
@pytest.mark.usefixtures("folder")
def test_the_keys_of_a_document_are_those_listed(mooring: Mooring, verb: str) -> None:
    problem = "examples/network_monitoring.yaml"
    options = {
        "evaluate": ("--placement", "plan.json"),
        "compare": ("--policies", "rod,llf"),
        "simulate": ("--placement", "plan.json", "--seconds", "1"),
    }
    assert mooring("plan", problem, "--output", "plan.json").code == 0
    listed = re.search(rf"^\| `{verb}` \| (`.*`) \|$", COMMAND_LINE.read_text(), re.MULTILINE)
    assert listed is not None
    document = mooring(verb, problem, *options.get(verb, ()), "--json").document
    plain, _, _ = listed[1].partition(";")  # with other options there are others
    assert list(document) == ["version", *re.findall(r"`(\w+)`", plain)]


def test_the_readme_shows_commands_and_pictures_that_are_there() -> None:
    assert len(shown(ROOT / "README.md")) >= 4
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", (ROOT / "README.md").read_text())
    assert pictures
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_the_examples_are_sound_problems(mooring: Mooring) -> None:
    """But for those that `mooring chunks` reads, which its own tests hold to what the guide says."""
    examples = sorted((ROOT / "examples").glob("*.yaml"))
    problems = [path for path in examples if "\nframes:" not in path.read_text()]
    assert len(problems) >= 3
    for path in problems:
        document = mooring("check", path, "--json").document
        assert document["feasible"], path
        assert document["warnings"] == [], path
