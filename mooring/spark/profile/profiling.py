"""`mooring profile`: run every fragment on sample data, alone on one quiet site, and fit what it costs.

Fragments are profiled one after another, each in the order of the graph, so that what one delivers is the
sample for those that read it. Each gets batches of two sizes: about what one trigger brings at the stated
rates, and one so large that the part that grows with the rows stands well above the part that does not. Each
size comes several times in a row, and the first of a row is left out: a window gives out, and forgets, in one
batch what it took in with the one before, so a small batch after a large one pays for both.

All fragments are measured once, then all of them again, and so on: what a row costs depends on who else uses
the machine's caches and memory, which holds for a minute and not for ten. So it is better to look seven times
for some seconds, minutes apart, than three times for longer; how far the passes differ is in the error.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
from pyspark.sql import SparkSession
from pyspark.sql.connect.plan import DataSource
from pyspark.sql.streaming import StreamingQuery

from mooring.errors import InputError, MooringError
from mooring.model.deployment.fragments import Fragment
from mooring.model.load.measured.measurements import NotMeasured
from mooring.model.problem.problem import Problem
from mooring.progress import Report
from mooring.spark.definitions.definitions import load_definitions
from mooring.spark.definitions.running_session import active_session
from mooring.spark.definitions.session_settings import use_settings
from mooring.spark.engine import fragment_query
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.shuffle_partitions import use_partitions
from mooring.spark.pipeline.statistics_file import FlowStatistics
from mooring.spark.profile.batches import BatchRunner
from mooring.spark.profile.feed import (
    EndlessSample,
    FedChannel,
    FedFolder,
    publish_together,
    replays,
    shares_of,
)
from mooring.spark.profile.fitting import ProfiledFragment, flow_statistics, middle_of_passes
from mooring.spark.profile.profile_options import ROW, ProfileOptions
from mooring.spark.profile.sources import (
    SAMPLE_ROWS,
    SourceSample,
    plain_tables,
    read_sample,
    redirect,
    with_stand_ins,
)
from mooring.spark.profile.view_profiling import ViewProfiler
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.sites import SiteHandle
from mooring.spark.storage import stream_logs

_TRIGGER_S = 0.5
_LEAST_ROWS = 200
_LARGE_ROWS = 500_000
"""Of the larger batch, wherever that is possible. A row is cheaper the more of them a batch has (by half from
85,000 to 680,000), so a size that follows what was just measured would find another cost each time."""
_LEAST_GROWTH = 20
"""The larger batch has at least so many times the usual rows."""
_LONGEST_CPU_S = 10.0
"""Of one large batch: it gets fewer rows if it would take more, by what smaller ones took."""
_VISIBLE = 0.15
"""Of the fixed part: where the growing part of a large batch is less, it gets four times the rows."""
_LOOKS = 20
_IDLE_S = 3.0


@dataclass
class Profile:
    """What came out: figures per flow, and why there are none where there are none."""

    flows: dict[str, FlowStatistics] = field(default_factory=dict)
    unmeasured: dict[str, str] = field(default_factory=dict)
    look_cpu_s: float = 0.0
    idle_cores: float = 0.0


def profile_layout(
    layout: Layout, problem: Problem, site: SiteHandle, scratch: Path, options: ProfileOptions, tell: Report
) -> Profile:
    """Profile every fragment of a project on one site; `scratch` holds channels and checkpoints meanwhile."""
    profiler = _Profiler(layout, problem, site, scratch, options)
    result = profiler.result
    result.idle_cores = profiler.idle_cores()
    steps = [(number, fragment) for number in range(options.passes) for fragment in layout.fragments.values()]
    for at, (number, fragment) in enumerate(steps):
        if fragment.name in result.unmeasured:
            continue
        tell(at / len(steps), f"profiling {fragment.name}, pass {number + 1}")

        def part_done(part: float, before: int = at) -> None:
            tell((before + part) / len(steps), "")

        try:
            if layout.pipeline.is_view(fragment.name):
                profiler.profile_view(fragment)
            else:
                profiler.profile(fragment, part_done)
        except MooringError as reason:
            result.unmeasured[fragment.name] = str(reason)
    profiler.conclude()
    tell(1.0, "done")
    return result


class _Profiler:
    def __init__(
        self, layout: Layout, problem: Problem, site: SiteHandle, scratch: Path, options: ProfileOptions
    ) -> None:
        settings = dataclasses.replace(layout.project.settings, storage=scratch, trigger_s=_TRIGGER_S)
        project = dataclasses.replace(layout.project, settings=settings)
        self._layout = Layout(project, plain_tables(layout.pipeline), layout.fragments)
        self._measured = layout
        self._trigger_s = layout.project.settings.trigger_s
        self._rates = {stream.name: stream.rate for stream in problem.streams}
        self._site = site
        self._options = options
        self._large: dict[str, int] = {}
        self._passes: dict[str, list[dict[str, FlowStatistics]]] = {}
        self._samples: dict[str, pyarrow.Table] = {}
        self._rows_per_s: dict[str, float] = {}
        self._looks_cpu_s: list[float] = []
        self.result = Profile()

    def _cpu_s(self) -> float:
        usage = self._site.usage()
        if usage is None:
            raise InputError(
                f"the processes of site {self._site.name!r} cannot be seen, so its CPU cannot be measured",
                remedy="profile on Linux with an embedded site",
            )
        return usage.cpu_s

    def idle_cores(self) -> float:
        before = self._cpu_s()
        time.sleep(_IDLE_S)
        return (self._cpu_s() - before) / _IDLE_S

    def profile(self, fragment: Fragment, tell: Callable[[float], None]) -> None:
        session = open_session(self._site.endpoint)
        query: StreamingQuery | None = None
        try:
            feed = _Feed(self._layout, fragment, self._samples, self._options.sample)
            query = self._start(fragment, session, feed)
            runner = BatchRunner(
                query,
                self._layout.checkpoint(fragment.name),
                feed.place,
                self._cpu_s,
                self.result.idle_cores,
            )
            usual = max(_LEAST_ROWS, round(self._input_rate(fragment, feed) * self._trigger_s))
            feed.usual_rows(usual)
            first_time = fragment.name not in self._large
            usual_cpu_s = self._warm_up(runner, usual, self._warm_up_limits(first_time), tell)
            if first_time:
                self._large[fragment.name] = large_batch(
                    lambda rows: _second(runner, rows), usual, usual_cpu_s, self._options.largest_rows
                )
            skipped = len(runner.done)
            self._measure(runner, usual, self._large[fragment.name], tell)
            runner.read_progress()
            if first_time:
                self._looks_cpu_s.append(self._look_cpu_s(query))
            query.stop()
            self._keep(fragment, runner, skipped, feed)
        except MooringError:
            raise
        except Exception as failure:
            raise fragment_query.flow_failure(
                self._layout, fragment.name, self._site.name, failure
            ) from failure
        finally:
            close_session(session)
            shutil.rmtree(self._layout.root, ignore_errors=True)  # the next pass starts from nothing as well
            self._layout = dataclasses.replace(self._layout)  # nor does it know a folder that is gone

    def profile_view(self, fragment: Fragment) -> None:
        """A materialized view: refreshed over samples of what it reads."""
        name, project, scratch = fragment.name, self._layout.project, self._layout.root / "refreshed"
        session = open_session(self._site.endpoint)
        views = ViewProfiler(
            *(self._layout, self._samples, self._cpu_s, self.result.idle_cores, self._options.largest_rows)
        )
        try:
            use_settings(session, project.spec, project.spec_file, self._site.name)
            use_partitions(self._measured, name, session)
            definitions = load_definitions(project.folder, project.spec, session)
            found, sample = views.profile(self._layout.pipeline.flows[name], definitions, session, scratch)
        except MooringError:
            raise
        except Exception as failure:
            raise fragment_query.flow_failure(self._layout, name, self._site.name, failure) from failure
        finally:
            close_session(session)
            shutil.rmtree(scratch, ignore_errors=True)
        self._passes.setdefault(name, []).append({name: found})
        if sample is not None:
            self._samples[name] = sample.slice(0, SAMPLE_ROWS)

    def _start(self, fragment: Fragment, session: SparkSession, feed: _Feed) -> StreamingQuery:
        project = self._layout.project
        use_settings(session, project.spec, project.spec_file, self._site.name)
        # Batches without rows, which give out what closed meanwhile, would come between those that are
        # fed. While rows arrive at every trigger there are none: the next batch with rows gives it out.
        session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        use_partitions(self._measured, fragment.name, session, kept=True)
        definitions = with_stand_ins(
            load_definitions(project.folder, project.spec, session, skip=project.settings.skip),
            lambda source: feed.stand_in(source, session),
        )
        frame = fragment_query.analysed_frame(self._layout, fragment, definitions, session)
        feed.ready()
        checkpoint = fragment_query.fence(self._layout, fragment.name)
        with active_session(session):
            return fragment_query.query_writer(self._layout, fragment, definitions, frame, checkpoint).start()

    def _input_rate(self, fragment: Fragment, feed: _Feed) -> float:
        """Rows per second it will get at the stated rates, as far as profiled flows tell."""
        flows, rate = self._layout.pipeline.flows, 0.0
        for flow in (flows[name] for name in fragment.operators):
            rate += self._rates.get(flow.dataset, 0.0) if flow.outside else 0.0
        for dataset in self._layout.inputs_of(fragment):
            rate += sum(self._rows_per_s.get(w.name, 0.0) for w in self._layout.pipeline.writers(dataset))
        feed.rate = rate
        return rate

    def _warm_up_limits(self, first_time: bool) -> tuple[int, int]:
        """Least and most batches."""
        options = self._options
        if not first_time:
            return options.warm_up_again, options.warm_up_again
        if not self._looks_cpu_s:
            return options.first_warm_up, options.first_warm_up
        return options.warm_up, options.most_warm_up

    def _warm_up(
        self, runner: BatchRunner, usual: int, limits: tuple[int, int], tell: Callable[[float], None]
    ) -> float:
        """Until the last few batches of the usual size are no cheaper than those before them; their CPU
        seconds.
        """
        small: list[float] = []
        least, most = limits
        while len(runner.done) < most:
            at = len(runner.done)
            batch = runner.run(usual if at % 2 == 0 else 8 * usual)
            tell(0.3 * at / most)
            if at % 2 == 0:
                small.append(batch.cpu_s)
            steady = len(small) >= 4 and np.median(small[-2:]) > 0.93 * np.median(small[-4:-2])
            if at + 1 >= least and steady:
                break
        return float(np.median(small[-4:]))

    def _measure(self, runner: BatchRunner, usual: int, large: int, tell: Callable[[float], None]) -> None:
        """Rounds of both sizes."""
        rounds = -(-self._options.batches // (2 * ROW))
        for number in range(rounds):
            for rows in ROW * [usual] + ROW * [large]:
                runner.run(rows)
            tell(0.3 + 0.7 * (number + 1) / rounds)
        # Brings out what the last large one left in windows; does not count itself.
        runner.run(usual)

    def _look_cpu_s(self, query: StreamingQuery) -> float:
        """CPU of one look as a run takes it: is it active, and how far is it."""
        before_cpu_s, before_s = self._cpu_s(), time.monotonic()
        for _ in range(_LOOKS):
            _ = query.isActive
            _ = query.recentProgress
        idle_s = self.result.idle_cores * (time.monotonic() - before_s)
        return max(0.0, self._cpu_s() - before_cpu_s - idle_s) / _LOOKS

    def conclude(self) -> None:
        self.result.look_cpu_s = float(np.median(self._looks_cpu_s)) if self._looks_cpu_s else 0.0
        for fragment, passes in self._passes.items():
            if fragment not in self.result.unmeasured:
                self.result.flows.update(
                    {name: middle_of_passes([found[name] for found in passes]) for name in passes[0]}
                )

    def _keep(self, fragment: Fragment, runner: BatchRunner, skipped: int, feed: _Feed) -> None:
        """Fit, and keep what the fragment delivered as the sample for its readers."""
        files = self._output_files(fragment.name)
        profiled = ProfiledFragment(fragment, self._layout, runner, skipped, files, feed.rows_per_input)
        flows = flow_statistics(profiled)
        if isinstance(flows, NotMeasured):
            raise InputError(f"{fragment.name!r} has too few usable measurements: {flows.reason}")
        self._passes.setdefault(fragment.name, []).append(flows)
        whole = profiled.selectivity
        self._rows_per_s[fragment.name] = feed.rate * (1.0 if whole is None else whole)
        if files:
            tables = [pyarrow.parquet.ParquetFile(file.path).read() for file in files]
            table = pyarrow.concat_tables(tables)
            if table.num_rows > 0:
                self._samples[fragment.name] = table.slice(0, SAMPLE_ROWS)

    def _output_files(self, fragment: str) -> list[stream_logs.LogEntry]:
        channel = self._layout.channels.get(fragment)
        return [] if channel is None else stream_logs.sink_entries(channel.folder / "_spark_metadata")


def large_batch(cpu_s: Callable[[int], float], usual: int, usual_cpu_s: float, most: int) -> int:
    """Rows of a batch that costs well above one of the usual size; `cpu_s` tries a size.

    >>> large_batch(lambda rows: 0.2 + 2e-6 * rows, 4_000, 0.2, 2_000_000)
    500000
    >>> large_batch(lambda rows: 0.2 + 1e-4 * rows, 4_000, 0.2, 2_000_000)  # 50 s would be too long
    80000
    >>> large_batch(lambda rows: 0.2 + 2e-8 * rows, 4_000, 0.2, 2_000_000)  # 5% more could not be told
    2000000
    """
    rows = min(_LEAST_GROWTH * usual, most)
    wanted = max(min(_LARGE_ROWS, most), rows)
    while rows < wanted:
        larger = min(4 * rows, wanted)
        if (cpu_s(rows) - usual_cpu_s) * larger / rows > _LONGEST_CPU_S:
            return rows
        rows = larger
    while rows < most and cpu_s(rows) < (1.0 + _VISIBLE) * usual_cpu_s:
        rows = min(4 * rows, most)
    return rows


def _second(runner: BatchRunner, rows: int) -> float:
    """CPU of the second of two batches of a size."""
    runner.run(rows)
    return runner.run(rows).cpu_s


class _Feed:
    """All inputs of one fragment: its channels, and its outside sources as stand-ins."""

    def __init__(
        self, layout: Layout, fragment: Fragment, samples: Mapping[str, pyarrow.Table], folder: Path | None
    ) -> None:
        self._layout = layout
        self._fragment = fragment
        self._folder = folder
        self._targets: list[FedChannel | FedFolder] = []
        self._tables: list[pyarrow.Table] = []
        self._inputs: list[str] = []
        self._replays: list[EndlessSample] = []
        self._seen: dict[int, tuple[FedFolder, SourceSample]] = {}
        self.rate = 0.0
        self.rows_per_input: dict[str, int] = {}
        layout.create()
        for dataset in layout.inputs_of(fragment):
            for channel in layout.writers_of(dataset):
                if channel.name not in samples:
                    raise InputError(
                        f"{fragment.name!r} reads {channel.name!r}, which delivered no rows",
                        remedy="give a larger sample, or state statistics in mooring.yml",
                    )
                self._add(channel.name, FedChannel(channel.link), samples[channel.name])

    def _add(self, name: str, target: FedChannel | FedFolder, table: pyarrow.Table) -> None:
        self._inputs.append(name)
        self._targets.append(target)
        self._tables.append(table)

    def stand_in(self, source: DataSource, session: SparkSession) -> None:
        """Redirect an outside source to a folder that this feed fills."""
        if id(source) in self._seen:
            return
        flows = self._layout.pipeline.flows
        dataset = next(flows[name].dataset for name in self._fragment.operators if flows[name].outside)
        sample = read_sample(session, source, dataset, self._folder)
        folder = self._layout.root / "sources" / f"{self._fragment.name}-{len(self._seen)}"
        target = FedFolder(folder, sample.kind)
        redirect(source, folder, sample)
        self._seen[id(source)] = (target, sample)
        self._add(f"outside {len(self._seen)}", target, sample.table)

    def ready(self) -> None:
        if not self._tables:
            raise InputError(
                f"{self._fragment.name!r} reads a table outside the pipeline, which a profile cannot replace",
                remedy="state its statistics in mooring.yml",
            )
        self._replays = replays(self._tables)

    def usual_rows(self, rows: int) -> None:
        """How large batches usually are, and hence of how many files of a source."""
        for target, sample in self._seen.values():
            files = round(rows / max(1, len(self._tables)) / sample.rows_per_file)
            target.files = min(max(1, files), sample.most_files)

    def place(self, rows: int) -> int:
        taken = [
            replay.take(share)
            for replay, share in zip(self._replays, shares_of(self._tables, rows), strict=True)
        ]
        publish_together(self._targets, taken)
        for name, table in zip(self._inputs, taken, strict=True):
            self.rows_per_input[name] = self.rows_per_input.get(name, 0) + table.num_rows
        return sum(table.num_rows for table in taken)
