"""A project profiled: one quiet site up, its graph read, its fragments measured, its statistics written."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyspark

from mooring.errors import InputError
from mooring.model.problem.site import Site
from mooring.progress import Report
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.pipeline.project import Project
from mooring.spark.pipeline.site_options import site_options
from mooring.spark.pipeline.statistics_file import (
    STATISTICS_FILE_NAME,
    MeasuredStatistics,
    merged,
    write_statistics,
)
from mooring.spark.pipeline.statistics_used import CostSource, cost_source
from mooring.spark.profile.profile_options import ProfileOptions
from mooring.spark.profile.profiling import Profile, profile_layout
from mooring.spark.runs.project_run import read_layout
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.sites.class_archive import usable_archive
from mooring.spark.sites.embedded_site import EmbeddedOptions
from mooring.spark.sites.java import find_java
from mooring.spark.sites.process_tree import can_see_processes
from mooring.spark.sites.sites import running_sites

_HEAP_MB = 1_024


@dataclass(frozen=True)
class ProjectProfile:
    layout: Layout
    statistics: MeasuredStatistics
    unmeasured: dict[str, str]
    file: Path
    before: Mapping[str, CostSource]
    """What plans went by until now, flow by flow."""


def profile_project(project: Project, options: ProfileOptions, tell: Report) -> ProjectProfile:
    """Measure on a site of our own, as large as the project's largest embedded one; then write the file."""
    if not can_see_processes():
        raise InputError(
            "a profile reads the CPU of processes from /proc, which this machine does not have",
            remedy="profile on Linux and copy the statistics file here",
        )
    sites = project.settings.sites
    capacity = max((site.capacity for site in sites if site.connect is None), default=1.0)
    scratch = project.work_folder / "profile"
    files = RunFiles(project.work_folder)
    with files.held():
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            quiet = Site(name="profile", capacity=capacity)
            with running_sites([quiet], scratch / "sites", site_options(project, _roomy())) as up:
                tell(0.0, "reading the pipeline")
                layout = read_layout(project, up["profile"])
                found = profile_layout(
                    layout, problem_of(layout), up["profile"], scratch / "storage", options, tell
                )
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    statistics = _statistics(found, capacity)
    file = project.folder / STATISTICS_FILE_NAME
    kept = {name: own for name, own in project.measured.flows.items() if name in layout.pipeline.flows}
    write_statistics(file, merged(MeasuredStatistics(kept), statistics))
    flows = layout.pipeline.flows
    before = {name: cost_source(layout, flows[name]) for name in statistics.flows}
    return ProjectProfile(layout, statistics, found.unmeasured, file, before)


def _roomy() -> EmbeddedOptions:
    """The large batches would have Java collect garbage for as long as they take in a heap that is nearly
    full, which batches of the usual size never see.
    """
    return EmbeddedOptions(heap_mb=_HEAP_MB, class_archive=usable_archive(find_java()))


def _statistics(found: Profile, capacity: float) -> MeasuredStatistics:
    java = find_java()
    return MeasuredStatistics(
        flows=found.flows,
        at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        on={
            "spark": pyspark.__version__,
            "java": str(java.major),
            "site": f"embedded, capacity {capacity:g}",
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, load average {os.getloadavg()[0]:.1f}",
        },
        look_cpu_s=found.look_cpu_s,
        idle_cores=found.idle_cores,
    )
