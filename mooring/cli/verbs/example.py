"""`mooring example`: copies one of the examples that come with Mooring."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

import mooring
from mooring.cli.input.parsing import Parser
from mooring.cli.output.terminal import Terminal
from mooring.errors import EngineError, InputError
from mooring.model.problem.reading.fields import nearest

DESCRIPTION = "Copies an example into this folder. Without a name, lists the examples that there are."

_LEFT_BEHIND = ("__pycache__", "landing", "out")
_COMMENT = re.compile(r'^(?:# |""")([^%#].*)', re.MULTILINE)


def add_options(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="a file or folder of the list")
    parser.add_argument(
        "--to", type=Path, metavar="PATH", help="where the copy is made (default: NAME, in this folder)"
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    examples = {path.name: path for path in sorted(examples_folder().iterdir()) if _is_shown(path)}
    if args.name is None:
        summaries = {name: _summary(path) for name, path in examples.items()}
        terminal.document({"version": 1, "examples": summaries})
        terminal.print(_listed(summaries))
        return 0
    if args.name not in examples:
        closest = nearest(args.name, examples)
        raise InputError(
            f"found {args.name!r}, expected one of {', '.join(examples)}",
            field="NAME",
            remedy=f"did you mean {closest!r}?" if closest else None,
        )
    target = Path(args.name) if args.to is None else args.to
    if target.exists():
        raise InputError("exists already", file=target, remedy="name another place with --to")
    _copy(examples[args.name], target)
    terminal.document({"version": 1, "example": args.name, "copied_to": str(target)})
    terminal.print(Text(f"Copied to {target}"))
    return 0


def examples_folder() -> Path:
    """Within the package where it was installed from a wheel, beside it in a checkout."""
    package = Path(mooring.__file__).parent
    places = (package / "examples", package.parent / "examples")
    folder = next((place for place in places if (place / "network_monitoring.yaml").is_file()), None)
    if folder is None:
        raise EngineError(
            f"this installation has no examples; expected them in {places[0]}",
            remedy="install Mooring again from its wheel",
        )
    return folder


def _is_shown(path: Path) -> bool:
    return not path.name.startswith((".", "__")) and path.name not in _LEFT_BEHIND


def _summary(path: Path) -> str:
    """The first line of its comment; of a folder that of its demo, `demo.py` or `NAME_demo.py`."""
    source = sorted(path.glob("*demo.py"))[0] if path.is_dir() else path
    text = source.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return str(json.loads(text).get("description", ""))
    found = _COMMENT.search(text)
    return "" if found is None else found[1].split(". `")[0].rstrip(":.")


def _listed(summaries: dict[str, str]) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("example", no_wrap=True)
    table.add_column("", overflow="fold")
    for name, summary in summaries.items():
        table.add_row(Text(name), Text(summary))
    return table


def _copy(example: Path, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if example.is_dir():
            shutil.copytree(example, target, ignore=shutil.ignore_patterns(*_LEFT_BEHIND, ".*"))
        else:
            shutil.copyfile(example, target)
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror or error}",
            file=target,
            remedy="name another place with --to",
        ) from None
