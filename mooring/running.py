"""The door to runs for Python: a project runs as `mooring run --detach` has it run, by the same verb.

The run is a process of its own. It goes on when the one that began it ends, and any other finds it by its
project, as `mooring status` does.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mooring.algorithms.catalogue import Deciding, make_decider, policy_of
from mooring.atomic_files import write_whole
from mooring.controller.adaptation import Act
from mooring.errors import EngineError, InputError
from mooring.model.placement.placement import Placement
from mooring.model.placement.placement_file import SomePlacement
from mooring.spark.needs_spark import require_spark

if TYPE_CHECKING:
    from mooring.spark.runs.background_run import Begun
    from mooring.spark.runs.found_run import FoundRun

_TOLD = 2_000
"""Characters of a log that an error quotes."""
GIVEN_PLAN = "given-plan.json"


@dataclass(frozen=True, repr=False)
class Run:
    """A run that was begun from Python. As a context manager it is stopped when the block ends."""

    project: Path
    begun: Begun

    def __repr__(self) -> str:
        state = "runs" if self.running else "ended"
        return f"Run({self.project.name}: {state}, process {self.begun.process.pid})"

    @property
    def running(self) -> bool:
        return self.begun.process.poll() is None

    @property
    def log(self) -> Path:
        """What the command prints."""
        return self.begun.log

    @property
    def report(self) -> Path:
        """The page of the report, which is written when the run ends; `report.json` is beside it."""
        return _work_folder(self.project) / "report.html"

    @property
    def page(self) -> str | None:
        """The address of its page, with the token; None while none is served."""
        return self._found().page

    def status(self) -> dict[str, Any]:
        """The document of `mooring status --json`."""
        return self._found().document()

    def stop(self) -> dict[str, Any]:
        """End it cleanly, as `mooring stop` does; returns the report."""
        if self.running:
            from mooring.spark.runs.mailbox import this_asker  # loads Spark

            self._found().stop(this_asker("mooring.Run.stop()"))
        return self.wait()

    def wait(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Until it has ended by itself; returns the report. A run that failed, or ended with something in
        trouble, is an `EngineError`.
        """
        try:
            code = self.begun.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise EngineError(
                f"the run has not ended after {timeout_s:g} s",
                remedy="`stop()` ends it; it goes on meanwhile",
            ) from None
        if code != 0:
            said = self.log.read_text(errors="replace").strip()[-_TOLD:]
            raise EngineError(f"the run ended with code {code}: {said}", remedy=f"see {self.log}")
        report: dict[str, Any] = json.loads(self.report.with_suffix(".json").read_text())
        return report

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _found(self) -> FoundRun:
        from mooring.spark.runs.found_run import find_run  # loads Spark
        from mooring.spark.runs.system_clock import SystemClock

        return find_run(self.project, SystemClock())


def run(
    project: str | PathLike[str] = ".",
    *,
    policy: str | None = None,
    settings: Mapping[str, object] | None = None,
    placement: SomePlacement | None = None,
    adapt: str = "headroom",
    adapt_settings: Mapping[str, object] | None = None,
    act: Act = "propose",
    guards: Mapping[str, object] | None = None,
    seconds: float | None = None,
    once: bool = False,
    refresh: Sequence[str] = (),
    full_refresh: Sequence[str] = (),
    fresh: bool = False,
    serve: str | None = None,
    seed: int = 0,
) -> Run:
    """Run a pipeline as `mooring run PROJECT --detach` does, and return once it runs.

    `project` is a folder or a pipeline spec. The options are those of the verb, `seconds` is `--for` and
    `serve` an address (`"127.0.0.1:8080"`). Policy and decider are given by name, from the catalogue or as
    `my_module:MyDecider`: the run is another process, so an object cannot be passed to it.
    """
    require_spark()
    folder = Path(project)
    named: dict[str, object] = {"policy": policy, "adapt": adapt}
    for option, given in named.items():
        if given is not None and not isinstance(given, str):
            kind = type(given)
            raise InputError(
                f"found an object of {kind.__name__}, expected a name: a run is a process of its own",
                field=option,
                remedy=f"write its class to a module and give '{kind.__module__}:{kind.__qualname__}', with "
                "its settings beside it",
            )
    # What is wrong with a name or a setting is raised here, and not told by a process that ends at once.
    if policy is not None:
        policy_of(policy, settings)
    make_decider(adapt, Deciding(policy or "rod", _words(adapt_settings), seed))
    from mooring.spark.pipeline.project import load_project  # loads Spark
    from mooring.spark.runs.background_run import begin_in_background
    from mooring.spark.runs.run_files import RunFiles

    files = RunFiles(load_project(folder).work_folder)
    words = ["run", *(["--spec", str(folder)] if folder.is_file() else [str(folder)])]
    words += ["--seed", str(seed), "--adapt", adapt, "--act", act]
    words += [] if policy is None else ["--policy", policy]
    for option, values in (("--set", settings), ("--adapt-set", adapt_settings), ("--guard", guards)):
        words += [word for name, value in _words(values).items() for word in (option, f"{name}={value}")]
    if placement is not None:
        words += ["--placement", str(_plan_file(placement, files.folder))]
    words += [] if seconds is None else ["--for", f"{seconds:f}"]
    words += ["--once"] if once else []
    words += ["--refresh", ",".join(refresh)] if refresh else []
    words += ["--full-refresh", ",".join(full_refresh)] if full_refresh else []
    words += ["--fresh"] if fresh else []
    words += [] if serve is None else ["--serve", serve]
    return Run(folder, begin_in_background(files, words))


def _words(values: Mapping[str, object] | None) -> dict[str, str]:
    """Python values as a command line gives them."""
    return {name: _word(value) for name, value in (values or {}).items()}


def _word(value: object) -> str:
    if isinstance(value, set | frozenset | list | tuple):
        return ",".join(sorted(map(str, value)) if isinstance(value, set | frozenset) else map(str, value))
    return "none" if value is None else str(value)


def _work_folder(project: Path) -> Path:
    from mooring.spark.pipeline.project import work_folder_of  # loads Spark

    return work_folder_of(project)


def _plan_file(given: SomePlacement, folder: Path) -> Path:
    if isinstance(given, str | PathLike):
        return Path(given)
    folder.mkdir(parents=True, exist_ok=True)
    if not isinstance(given, Mapping):
        given = (given if isinstance(given, Placement) else given.placement).as_dict()
    write_whole(folder / GIVEN_PLAN, json.dumps(dict(given), indent=1))
    return folder / GIVEN_PLAN
