"""The pipeline spec of a project: found in its folder, or named where a folder has several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pyspark.errors import PySparkException
from pyspark.pipelines.cli import PIPELINE_SPEC_FILE_NAMES, PipelineSpec, load_pipeline_spec

from mooring.errors import InputError
from mooring.spark.sites.endpoint import first_line

WORK_FOLDER_NAME = ".mooring"
STORAGE_NOTE = "storage.path"
"""A file among Mooring's own that says where the last run from there has stored what outlives it."""
MARK_NOTE = "storage.mark"
"""Beside it: the identity of that storage."""
LARGEST_BYTES = 256 * 1024
"""Of a spec; a larger YAML file beside the definitions is something else, such as data."""
_LOADER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


def work_folder_of_spec(spec_file: Path) -> Path:
    """A spec of another name has one of its own: two pipelines of a folder keep out of each other's way."""
    own = "" if is_default(spec_file) else f"-{spec_file.stem}"
    return spec_file.parent / f"{WORK_FOLDER_NAME}{own}"


def spec_file_of(project: Path) -> Path:
    """Of a project folder, or of the spec itself where that was named."""
    if project.is_file():
        return project
    if not project.is_dir():
        raise InputError("no such folder", file=project, remedy="give the project's folder")
    found = [project / name for name in PIPELINE_SPEC_FILE_NAMES if (project / name).is_file()]
    if len(found) == 1:
        return found[0]
    others = sorted(path.name for path in project.glob("*.y*ml") if is_spec(path))
    if len(others) > 1:
        raise InputError(
            f"found the pipeline specs {', '.join(others)}, expected one",
            file=project,
            remedy=f"choose one, for example --spec {project / others[0]}",
        )
    if others:
        return project / others[0]
    raise InputError(
        "found no pipeline spec, expected a file named spark-pipeline.yml",
        file=project,
        remedy=(
            "a project folder holds spark-pipeline.yml and its transformations; name another spec "
            "with --spec FILE; `spark-pipelines init --name NAME` makes a first project"
        ),
    )


def is_default(spec_file: Path) -> bool:
    """Whether it is the one spec of its folder, by its name."""
    return spec_file.name in PIPELINE_SPEC_FILE_NAMES


def is_spec(file: Path) -> bool:
    """Whether it looks like one: a name, a storage root and libraries."""
    try:
        if file.stat().st_size > LARGEST_BYTES:
            return False
        data = yaml.load(file.read_text(encoding="utf-8"), Loader=_LOADER)
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(data, dict) and {"name", "storage"} <= data.keys() and "sites" not in data


def load_spec(spec_file: Path) -> PipelineSpec:
    try:
        return load_pipeline_spec(spec_file)
    except (PySparkException, KeyError, TypeError, AttributeError, yaml.YAMLError) as failure:
        raise InputError(f"not a pipeline spec: {first_line(failure)}", file=spec_file) from failure
