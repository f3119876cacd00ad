"""The projects of this folder, and the golden data that plain Spark's tables were recorded as.

Each folder is a project as `spark-pipelines` takes it, with a `mooring.yml` of `sites` alone. `FOLDER` in its
files stands for where it lies. What is in `input-2` arrives after the first update, for a second one.
`golden.json` has the rows of every table after each update, and of every parquet sink (under `out/`).

Where plain Spark itself loses rows, files under `plain/` take the place of the project's when it is recorded,
and say why. Tables named `part_...` are theirs alone.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

HERE = Path(__file__).parent
GOLDEN_FILE_NAME = "golden.json"
LIVE = "combined"
"""Run both ways instead of being recorded."""
NAMES = sorted({spec.parent.name for spec in HERE.glob("*/spark-pipeline.y*ml")} - {LIVE})
RECORDED = [name for name in NAMES if (HERE / name / GOLDEN_FILE_NAME).is_file()]

Tables = dict[str, list[str]]
"""Table -> its rows, as lines."""


def copy_of(name: str, into: Path, *, for_plain_spark: bool = False) -> Path:
    """The project, ready to run in a folder of its own."""
    folder = into / name
    shutil.copytree(HERE / name, folder)
    if for_plain_spark and (folder / "plain").is_dir():
        shutil.copytree(folder / "plain", folder, dirs_exist_ok=True)
    for file in folder.rglob("*"):
        if file.is_file() and "FOLDER" in (text := file.read_text(encoding="utf-8")):
            file.write_text(text.replace("FOLDER", str(folder)), encoding="utf-8")
    return folder


def updates_of(name: str) -> int:
    """How many updates the golden data is of."""
    return 1 + (HERE / name / "input-2").is_dir()


def arrive(folder: Path) -> None:
    """What comes after the first update."""
    shutil.copytree(folder / "input-2", folder / "input", dirs_exist_ok=True)


def read_golden(name: str) -> list[Tables]:
    """One per update."""
    found: list[Tables] = json.loads((HERE / name / GOLDEN_FILE_NAME).read_text(encoding="utf-8"))
    return found


def write_golden(name: str, updates: list[Tables]) -> None:
    text = json.dumps(updates, indent=1, sort_keys=True, ensure_ascii=False)
    (HERE / name / GOLDEN_FILE_NAME).write_text(text + "\n", encoding="utf-8")
