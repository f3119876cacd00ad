"""A project folder: the pipeline spec beside `mooring.yml`, which says where things may run and what they
cost.

`mooring.yml` has the problem file's sections without `operators` (they come from the pipeline), plus those
below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.pipelines.cli import PipelineSpec

from mooring.errors import InputError
from mooring.problem.fields import Check, fail, mapping, name, names, positive, read_fields, refuse_key
from mooring.problem.files import load_data
from mooring.problem.schema import problem_from_data
from mooring.problem.site import Site
from mooring.spark.definitions import find_spec
from mooring.spark.statistics_file import STATISTICS_FILE_NAME, MeasuredStatistics, read_statistics

SETTINGS_FILE_NAMES = ("mooring.yml", "mooring.yaml", "mooring.json")

_PROBLEM_SECTIONS = ("version", "sites", "latency_ms", "network", "streams", "queries")
_STATISTICS_FIELDS = (
    *("kind", "cost_us", "selectivity", "per_input", "window_s", "variable"),
    *("bytes", "memory_mb", "state_bytes", "movable", "fixed_cores", "error"),
)
_OWN: dict[str, Check] = {
    "statistics": mapping,
    "pins": mapping,
    "cuts": names,
    "storage": name,
    "trigger_s": positive,
    "channel": name,
    "policy": name,
}


@dataclass(frozen=True)
class ProjectSettings:
    """What `mooring.yml` says. Sections of the problem schema are kept as plain data until the graph is
    known.
    """

    problem_sections: dict[str, Any]
    statistics: dict[str, dict[str, object]] = field(default_factory=dict)
    """Per dataset (or flow): operator fields such as cost_us, selectivity, fixed_cores."""
    pins: dict[str, str] = field(default_factory=dict)
    """Dataset or flow -> site."""
    cuts: tuple[str, ...] = ()
    """Datasets whose output is a channel even where they could run together with their reader."""
    storage: Path = Path()
    """Root of channels and checkpoints; every site sees it under this path."""
    trigger_s: float = 5.0
    """Seconds between micro-batches. Each costs a fixed part of a core, so 1 s is dear (docs/spark.md)."""
    policy: str = "rod"


@dataclass(frozen=True)
class Project:
    folder: Path
    spec_file: Path
    spec: PipelineSpec
    settings_file: Path
    settings: ProjectSettings
    measured: MeasuredStatistics = field(default_factory=MeasuredStatistics)
    """From the statistics file that `mooring profile` writes; empty where there is none."""

    @property
    def work_folder(self) -> Path:
        """Mooring's own files: logs, status, reports."""
        return self.folder / ".mooring"


def is_project(path: Path) -> bool:
    """A folder with a `mooring.yml` can stand wherever a problem file does."""
    return path.is_dir()


def load_project(folder: Path) -> Project:
    folder = folder.resolve()
    if not folder.is_dir():
        raise InputError("no such folder", file=folder, remedy="give the project's folder")
    spec_file, spec = find_spec(folder)
    found = [folder / file for file in SETTINGS_FILE_NAMES if (folder / file).is_file()]
    if not found:
        raise InputError(
            "found no mooring.yml beside the pipeline spec",
            file=folder,
            remedy="add one with at least `sites` and `streams` (docs/spark.md)",
        )
    try:
        settings = _read_settings(load_data(found[0]), folder)
    except InputError as error:
        error.file = error.file or str(found[0])
        raise
    return Project(
        folder, spec_file, spec, found[0], settings, read_statistics(folder / STATISTICS_FILE_NAME)
    )


def read_sites(project: Project) -> list[Site]:
    """The sites of `mooring.yml`, before the rest of it can be understood."""
    stand_in = {"streams": {"x": {"rate": 0}}, "operators": {"x:ingest": {"inputs": ["x"], "cost_us": 0}}}
    sections = {"sites": project.settings.problem_sections.get("sites") or {}}
    try:
        sites = problem_from_data({**sections, **stand_in}).sites
    except InputError as error:
        error.file = error.file or str(project.settings_file)
        raise
    return list(sites)


def _read_settings(data: object, folder: Path) -> ProjectSettings:
    if not isinstance(data, Mapping):
        fail("", "a mapping with sites and streams", data)
    if "operators" in data:
        raise InputError(
            "found operators, which come from the pipeline's definitions",
            field="operators",
            remedy="give their costs under `statistics`, by dataset",
        )
    for key in data:
        if key not in _PROBLEM_SECTIONS and key not in _OWN:
            refuse_key(key, [*_PROBLEM_SECTIONS, *_OWN], "")
    own: dict[str, Any] = read_fields({key: data[key] for key in _OWN if key in data}, _OWN, "")
    if own.pop("channel", "files") != "files":
        fail("channel", "files, the only kind so far", data["channel"])
    own["statistics"] = {
        str(key): _statistics(raw, f"statistics.{key}") for key, raw in own.get("statistics", {}).items()
    }
    own["pins"] = {str(key): name(site, f"pins.{key}") for key, site in own.get("pins", {}).items()}
    own["storage"] = _storage(own.get("storage", ".mooring/storage"), folder)
    sections = {key: data[key] for key in _PROBLEM_SECTIONS if data.get(key) is not None}
    return ProjectSettings(problem_sections=sections, **own)


def _statistics(raw: object, path: str) -> dict[str, object]:
    given = mapping(raw, path, "a mapping of cost_us, selectivity, ...")
    for key in given:
        if key not in _STATISTICS_FIELDS:
            refuse_key(key, _STATISTICS_FIELDS, path)
    return dict(given)


def _storage(text: str, folder: Path) -> Path:
    """A path every site sees; relative ones start at the project."""
    text = text.removeprefix("file://")
    if "://" in text:
        fail(
            "storage",
            "a path on a file system that Mooring and all sites share",
            text,
            remedy="mount it (object stores are not supported yet)",
        )
    return (folder / text).resolve()
