"""Sites with enforced CPU quotas and a generated pipeline on them (ROD paper, section 7).

Everything lies in a temporary folder and ends with the block, however it ends. The quotas must hold and fit
the machine together, or an overload would be the machine's and not one site's own: where they do not, the
experiments are refused.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.quota_bench.feeder import Feeder
from lab.quota_bench.looks import Deployment
from lab.quota_bench.workload import (
    SITE_NAMES,
    DelayOperator,
    delay_expression,
    roots,
    write_project,
)
from mooring.contracts.engine import carry_out
from mooring.errors import InputError, UnsupportedError
from mooring.model.placement.placement import OperatorSites, Placement
from mooring.model.problem.problem import Problem
from mooring.model.problem.site import Site
from mooring.progress import Report, silent
from mooring.spark.engine.engine import EngineOptions
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import PreparedRun, forget_everything, prepared_on
from mooring.spark.sites.cpu_quota import CpuQuota
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.sites import SiteHandle, running_sites

RESERVED_CORES = 0.4
"""Left for Mooring, the feeder and the system."""
PATIENCE_S = 120.0
"""An overloaded site answers late; that it is slow is what is being measured."""
_CALIBRATION_STEPS = 20_000
_CALIBRATION_ROWS = 200


@dataclass(frozen=True)
class BenchParams:
    sites: int = 3
    quota_cores: float = 0.5
    trigger_s: float = 4.0

    def __post_init__(self) -> None:
        if not 1 <= self.sites <= len(SITE_NAMES):
            raise InputError(f"found {self.sites} sites, expected 1 to {len(SITE_NAMES)}", field="sites")

    @property
    def quotas(self) -> dict[str, float]:
        return dict.fromkeys(SITE_NAMES[: self.sites], self.quota_cores)


@dataclass(frozen=True)
class Bench:
    """Sites that are up, and a pipeline of delay operators that can be put on them in any placement."""

    params: BenchParams
    operators: tuple[DelayOperator, ...]
    prepared: PreparedRun
    landing: Path
    step_us: float
    """CPU of one step of a delay, as calibrated."""

    @property
    def problem(self) -> Problem:
        """With the costs asked for and no fixed cost: what the pipeline is, not yet what it costs."""
        return self.prepared.problem

    @contextlib.contextmanager
    def deployed(self, site_of_operator: OperatorSites) -> Iterator[Deployment]:
        """A fresh start of the pipeline in a placement, on sites that stay warm from one to the next."""
        forget_everything(self.prepared.project, self.prepared.hold.owned)
        for name in roots(self.operators):
            shutil.rmtree(self.landing / name)
            (self.landing / name).mkdir()
        feeder = Feeder(self.landing, roots(self.operators), tick_s=min(1.0, self.params.trigger_s / 2))
        with self.prepared.engine(EngineOptions(silence_s=PATIENCE_S)) as engine:
            carry_out(engine, Placement.from_dict(self.problem, site_of_operator))
            refuse_unheld(self.prepared.sites)
            with feeder.feeding():
                yield Deployment(engine, feeder, self.operators, self.params.quotas, self.params.trigger_s)


@contextlib.contextmanager
def bench(
    operators: tuple[DelayOperator, ...], params: BenchParams | None = None, report: Report | None = None
) -> Iterator[Bench]:
    """Start the sites and generate the pipeline of these operators."""
    params = params or BenchParams()
    report = report or silent
    require_room(params.quotas, len(os.sched_getaffinity(0)))
    require_quota(quota_probe())
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-quota-bench-"))
        ).resolve()
        report(0.0, f"starting {params.sites} sites")
        wanted = [Site(name=name, capacity=cores) for name, cores in params.quotas.items()]
        sites = stack.enter_context(running_sites(wanted, folder / "sites"))
        report(0.02, "calibrating the delay")
        with ThreadPoolExecutor(max_workers=params.sites) as pool:
            step_us = float(np.median(list(pool.map(calibrate, sites.values()))))
        project_folder = folder / "project"
        landing = write_project(
            project_folder, operators, params.quotas, step_us=step_us, trigger_s=params.trigger_s
        )
        project = load_project(project_folder)
        prepared = stack.enter_context(prepared_on(project, sites))
        yield Bench(params, operators, prepared, landing, step_us)


def calibrate(site: SiteHandle) -> float:
    """CPU microseconds of one step, by the site's process tree: two jobs' difference after a warm-up."""
    session = open_session(site.endpoint)
    try:

        def cpu_s(steps: int) -> float:
            before = site.usage()
            frame = session.range(0, _CALIBRATION_ROWS, 1, 1).selectExpr("id as n")
            frame.selectExpr(f"sum({delay_expression(steps)})").collect()
            after = site.usage()
            assert before is not None
            assert after is not None
            return after.cpu_s - before.cpu_s

        for _ in range(2):
            cpu_s(_CALIBRATION_STEPS)
        pairs = [(cpu_s(_CALIBRATION_STEPS), cpu_s(1)) for _ in range(3)]
        spent_s = float(np.median([long - short for long, short in pairs]))
        return max(1e6 * spent_s / (_CALIBRATION_ROWS * _CALIBRATION_STEPS), 1e-3)
    finally:
        close_session(session)


def require_room(quotas: Mapping[str, float], cores: int) -> None:
    """The quotas of all sites fit the machine with something left for everyone else."""
    wanted = sum(quotas.values())
    if wanted > cores - RESERVED_CORES + 1e-9:
        raise UnsupportedError(
            f"{len(quotas)} sites with {wanted:g} cores together on {cores} cores, of which "
            f"{RESERVED_CORES:g} stay free for Mooring and the system: an overload would be the machine's, "
            "not one site's own",
            remedy="run it on a machine with more cores",
        )


def require_quota(said: str) -> None:
    """`said` is what putting a quota into force came to."""
    if said.startswith("no CPU quota"):
        raise UnsupportedError(
            f"this machine enforces no CPU quotas here: {said}",
            remedy="run as a user who may make control groups",
        )


def quota_probe() -> str:
    """Try a quota on a process of our own."""
    quota = CpuQuota("probe", 0.5)
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        return quota.hold(sleeper.pid)
    finally:
        sleeper.kill()
        sleeper.wait()
        for group in quota.groups:
            with contextlib.suppress(OSError):
                group.rmdir()


def refuse_unheld(sites: Mapping[str, SiteHandle]) -> None:
    for site in sites.values():
        if "no CPU quota" in site.note or "CPU quota" not in site.note:
            require_quota(f"no CPU quota for {site.name}: {site.note}")
