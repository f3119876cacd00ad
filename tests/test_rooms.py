"""The layout of the code base holds: data flows downwards, and each heavy import has one home."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent / "mooring"

# From the top down: a room imports only from the rooms above it (and from itself).
ROOMS = [
    "errors",
    "problem",
    "network",
    "load",
    "placement",
    "chunks",
    "deployment",
    "protocols",
    "simulator",
    "policies",
    "spark",
    "controller",
    "runtime",
    "run",
    "experiments",
    "cli",
]

# Where a module may be imported: rooms, or the suffix of a file's stem.
HOMES = {
    "pyspark": ({"spark"}, ()),
    "numba": (set(), ("_kernels",)),
    "time": ({"runtime", "spark", "cli"}, ()),
    "socket": ({"runtime", "spark", "cli"}, ()),
    "datetime": ({"runtime", "spark", "cli"}, ()),
    "random": (set(), ()),
}


def imported_modules(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def sources() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def test_every_file_lives_in_a_known_room() -> None:
    assert {room_of(path) for path in sources()} <= {*ROOMS, "__main__"}


def test_a_room_imports_only_from_rooms_above_it() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources()
        for name in imported_modules(path)
        if name.startswith("mooring.") and path.stem != "__main__"
        if name.split(".")[1] in ROOMS and ROOMS.index(name.split(".")[1]) > ROOMS.index(room_of(path))
    ]
    assert not wrong, wrong


def test_heavy_imports_stay_in_their_homes() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources()
        for name in imported_modules(path)
        if (home := HOMES.get(name.split(".")[0])) is not None
        if room_of(path) not in home[0] and not path.stem.endswith(home[1] or ("\0",))
    ]
    assert not wrong, wrong


def test_no_module_is_named_after_nothing() -> None:
    homeless = {"utils", "util", "helpers", "common", "misc"}
    assert not [path for path in ROOT.rglob("*") if path.stem in homeless]


def test_packages_hold_no_code_beyond_public_names() -> None:
    for path in ROOT.rglob("__init__.py"):
        for node in ast.parse(path.read_text()).body:
            assert isinstance(node, ast.Import | ast.ImportFrom | ast.Expr | ast.Assign), path
