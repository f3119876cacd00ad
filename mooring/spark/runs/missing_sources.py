"""A project is read before its data exists: empty folders stand for those that Spark looks for meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from mooring.errors import InputError, InputErrors
from mooring.spark.pipeline.flow_refusals import MissingPathError
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.project import Project
from mooring.spark.runs.project_run import read_on_one_site

_PATTERN = set("*?[{")


def read_without_data(project: Project) -> tuple[Layout, list[Path]]:
    """The pipeline, and the folders that it reads and that do not exist yet. They are there only while it is
    read. Where that does not help, the error is the one about the missing folders.
    """
    try:
        return read_on_one_site(project), []
    except InputError as wrong:
        missing = missing_folders(wrong)
        if not missing:
            raise
        with contextlib.ExitStack() as stack:
            for folder in missing:
                stack.enter_context(_standing_in(folder))
            try:
                return read_on_one_site(project), missing
            except InputError:
                raise wrong from None


def missing_folders(wrong: InputError) -> list[Path]:
    """On this machine, each once."""
    errors = wrong.errors if isinstance(wrong, InputErrors) else (wrong,)
    paths = [each.path for each in errors if isinstance(each, MissingPathError)]
    local = [Path("/" + path.removeprefix("file:").lstrip("/")) for path in paths if _is_folder_here(path)]
    return list(dict.fromkeys(local))


def _is_folder_here(path: str) -> bool:
    return path.startswith(("/", "file:/")) and not _PATTERN & set(path)


@contextlib.contextmanager
def _standing_in(folder: Path) -> Iterator[None]:
    """Whatever of it is missing is made, and goes again unless something was put into it."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for each in made:
            with contextlib.suppress(OSError):
                each.rmdir()
