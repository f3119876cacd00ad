"""The layout of the code base holds: data flows downwards, and each heavy import has one home."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path, PurePath

ROOT = Path(__file__).parent.parent / "mooring"

# From the top down: a room imports only from those above it (and from itself). A sub-room stands for itself;
# the name of a room with sub-rooms stands for the modules that lie in the room directly.
ROOMS = [
    "arrays",
    "errors",
    "quantity",
    "checksum",
    "atomic_files",
    "disk",
    "plain_json",
    "progress",
    "figure_style",
    "notebook",
    "model/problem/reading",
    "model/problem/changes",
    "model/problem",
    "model/load/measured",
    "model/load",
    "model/load/feasible",
    "model/load/queued",
    "model/network",
    "model/placement",
    "model/rate_scenarios",
    "model/bounds",
    "model/goals",
    "model/evaluation",
    "model/deployment",
    "contracts",
    "traces",
    "coordination",
    "virtual_time",
    "chunks",
    "chunks/assignment",
    "chunks/data",
    "chunks/files",
    "chunks/timing",
    "chunks/search",
    "algorithms/headroom",
    "algorithms/rod",
    "algorithms/replan",
    "algorithms/relaxation",
    "algorithms/baselines",
    "algorithms/resilient",
    "algorithms/overlay/search",
    "algorithms/overlay/protocol",
    "algorithms/overlay/leases",
    "algorithms/overlay",
    "algorithms/ants",
    "algorithms/exact",
    "algorithms/combined",
    "algorithms",
    "planning",
    "agents/transport",
    "agents",
    "controller",
    "simulator/data_plane/kernels",
    "simulator/data_plane",
    "simulator/runs",
    "spark/event_logs",
    "spark/sites",
    "spark/chunks",
    "spark/connectors",
    "spark/jobs",
    "spark/storage",
    "spark/ownership",
    "spark/storage/checkpoints",
    "spark/storage/views",
    "spark/definitions",
    "spark/pipeline",
    "spark/tables",
    "spark/views",
    "spark/engine",
    "spark/runs/record",
    "spark/runs",
    "spark/needs_spark",
    "spark/profile",
    "running",
    "doctor",
    "service/page",
    "service/view",
    "service/web",
    "cli/output",
    "cli/input",
    "cli/verbs",
    "cli",
]

# Where a module may be imported: rooms, or the suffix of a file's stem.
HOMES = {
    "pyspark": ({"spark"}, ()),
    "numba": (set(), ("_kernels",)),
    "starlette": ({"service"}, ()),
    "uvicorn": ({"service"}, ()),
    "prometheus_client": ({"service"}, ()),
    "time": ({"spark", "agents", "cli"}, ()),
    "socket": ({"spark", "agents", "service", "cli"}, ()),
    "datetime": ({"spark", "agents", "cli"}, ()),
    "random": (set(), ()),
}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported_modules(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names


def place_of(path: Path) -> str:
    """The room or sub-room in which a file lies, by the longest name in `ROOMS` that fits."""
    return room_named(path.relative_to(ROOT).with_suffix("").as_posix())


def room_named(module: str) -> str:
    """Of a module's path under `mooring/`; the path itself where no room fits.

    >>> room_named("placement/rod/rod_kernels"), room_named("placement/checker")
    ('placement/rod', 'placement')
    """
    parts = module.split("/")
    tried = ["/".join(parts[:upto]) for upto in range(len(parts), 0, -1)]
    return next((name for name in tried if name in ROOMS), module)


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def sources() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def test_every_file_lives_in_a_known_room() -> None:
    above = {"/".join(room.split("/")[:upto]) for room in ROOMS for upto in range(1, room.count("/") + 1)}
    known = {*ROOMS, *above, "__main__"}
    assert {place_of(path).removesuffix("/__init__") for path in sources()} <= known


def test_every_room_of_the_list_exists() -> None:
    assert not [room for room in ROOMS if not (ROOT / room).is_dir() and not (ROOT / f"{room}.py").is_file()]


def test_a_room_imports_only_from_rooms_above_it() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources()
        for name in imported_modules(path)
        if name.startswith("mooring.") and path.stem != "__main__"
        if (room := room_named("/".join(name.split(".")[1:]))) in ROOMS
        if ROOMS.index(room) > ROOMS.index(place_of(path))
    ]
    assert not wrong, wrong


def test_the_folders_of_a_room_stand_together() -> None:
    """So the order of the list is one of rooms too, and there is no circle of rooms or of folders."""
    tops = [room.split("/")[0] for room in ROOMS]
    assert [top for top, before in zip(tops, ["", *tops], strict=False) if top != before] == [
        *dict.fromkeys(tops)
    ]


def test_no_modules_load_one_another_in_a_circle() -> None:
    modules = {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in sources()
    }
    loads = {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts): {
            name if name in modules else name.rpartition(".")[0] for name in loaded_names(tree(path))
        }
        & modules
        for path in sources()
        if path.name != "__init__.py"
    }
    TopologicalSorter(loads).prepare()  # raises a CycleError that names the circle


def loaded_names(module: ast.Module) -> set[str]:
    """What is imported when a module is loaded: not inside functions, and not for type checkers alone."""
    return {
        f"{node.module}.{alias.name}"
        for node in module.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_tests_mirror_the_rooms() -> None:
    tests = Path(__file__).parent
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    homes = {
        folder: ROOT.parent if folder.parts[:1] in (("lab",), ("examples",)) else ROOT for folder in folders
    }
    assert not [str(folder) for folder, home in homes.items() if not (home / folder).is_dir()]


def test_heavy_imports_stay_in_their_homes() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources()
        for name in imported_modules(path)
        if (home := HOMES.get(name.split(".")[0])) is not None
        if room_of(path) not in home[0] and not path.stem.endswith(home[1] or ("\0",))
    ]
    assert not wrong, wrong


def test_files_are_renamed_into_place_in_one_place() -> None:
    """Besides: a file that Java wrote, and the inputs of a profiled batch, which are shown together."""
    homes = {"atomic_files.py", "spark/sites/class_archive.py", "spark/profile/feed.py"}
    renaming = {
        path.relative_to(ROOT).as_posix()
        for path in sources()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "os.replace"
    }
    assert renaming == homes


ON_THE_DISK = (
    *("spark/storage", "spark/ownership", "spark/views", "spark/engine", "controller"),
    *("spark/runs/left_sessions.py", "spark/runs/apply_edits.py", "spark/runs/falling_back.py"),
)
"""What outlives a run is read and written here, through `disk.py` alone: that is what a simulated disk and an
object store can stand in for."""
NOT_OF_THE_STORAGE = {
    ("spark/storage/file_rows.py", "path.open"): "rows are pyarrow's to read, by path",
    ("spark/storage/file_rows.py", "os.fstat"): "the same",
    ("spark/storage/ages.py", "_BOOT.read_text"): "the machine's clock since its start",
    ("spark/storage/ages.py", "_UPTIME.read_text"): "the same",
    ("spark/ownership/owner.py", "Path('/proc/sys/kernel/random/boot_id').read_text"): "which start it is",
}
OF_PATHS = {name for name in dir(Path) if name not in dir(PurePath)} - {"cwd", "home", "expanduser"}
NO_FILES = {"os.getpid", "os.strerror", "os.getloadavg", "os.path.relpath", "os.path.basename"}


def file_operations(path: Path) -> set[str]:
    """Calls of a module that go to a file and not through a disk, or through its owner's folder."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        through = owner.lower().endswith(("disk", "owned"))
        # A text's `replace` takes two, that of a record takes names.
        of_path = (
            name in OF_PATHS and owner and (name != "replace" or (len(node.args), node.keywords) == (1, []))
        )
        module = called.partition(".")[0] in ("os", "shutil", "tempfile", "fcntl", "glob")
        if not through and (of_path or called == "open" or (module and called not in NO_FILES)):
            found.add(called)
    return found


def test_what_outlives_a_run_is_read_and_written_through_the_disk_alone() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), called)
        for path in sources()
        if path.relative_to(ROOT).as_posix().startswith(ON_THE_DISK)
        for called in file_operations(path)
    }
    assert found == set(NOT_OF_THE_STORAGE)


def test_arrays_have_one_set_of_names() -> None:
    spelled = [
        f"{path.relative_to(ROOT)} line {node.lineno}"
        for path in sources()
        if path != ROOT / "arrays.py"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).split(".")[-1].lower() == "ndarray"
    ]
    assert not spelled, f"take the names of mooring/arrays.py: {spelled}"


def test_the_name_of_a_class_means_one_thing() -> None:
    """But for arcs as kernels take them: numba's cache of a kernel is unreadable once a class it names is
    gone."""
    homes: dict[str, list[str]] = {}
    for path in sources():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    shared = {name: where for name, where in homes.items() if len(where) > 1}
    assert shared.keys() == {"Arcs"}, shared


def test_the_command_line_imports_inside_a_function_only_what_may_not_be_installed() -> None:
    """A verb when it is asked for, and what comes with an extra (Spark, the service)."""
    inside = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "cli").rglob("*.py"))
        for function in ast.walk(tree(path))
        if isinstance(function, ast.FunctionDef | ast.Lambda)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Name | ast.Attribute) and "import_module" in ast.unparse(node))
        for name in [getattr(node, "module", None) or ast.unparse(node)]
        if not name.startswith(("mooring.spark.", "mooring.service."))
    }
    assert inside == {"cli/main.py imports importlib.import_module"}, inside


def test_the_product_imports_nothing_that_tries_it_out() -> None:
    outside = {"lab", "tests", "examples"}
    found = {
        str(path.relative_to(ROOT))
        for path in sources()
        for node in ast.walk(tree(path))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        if name.split(".")[0] in outside
    }
    assert not found


def test_no_module_is_named_after_nothing() -> None:
    homeless = {"utils", "util", "helpers", "common", "misc"}
    assert not [path for path in ROOT.rglob("*") if path.stem in homeless]


def test_packages_hold_no_code_beyond_public_names() -> None:
    for path in ROOT.rglob("__init__.py"):
        for node in tree(path).body:
            assert isinstance(node, ast.Import | ast.ImportFrom | ast.Expr | ast.Assign) or (
                path == ROOT / "__init__.py" and loads_public_names(node)
            ), path


def loads_public_names(node: ast.stmt) -> bool:
    """What the top package says to type checkers, and how it loads its names when they are first used."""
    return isinstance(node, ast.If) and all(
        isinstance(part, ast.ImportFrom)
        or (isinstance(part, ast.FunctionDef) and part.name in ("__getattr__", "__dir__"))
        for part in node.body
    )


def test_every_folder_of_the_lab_is_installed_with_it() -> None:
    """Workers of Spark import trials from the lab by name."""
    lab = ROOT.parent / "lab"
    stated = tomllib.loads((lab / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(lab.parent) for path in lab.rglob("*.py") if "build" not in path.parts}
    assert set(stated) == {"lab", *(".".join(folder.parts) for folder in folders)}
