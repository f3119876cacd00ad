"""Bringing a project up: its sites, its graph read by Spark, and the problem that policies place."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_hex

from pyspark.sql import SparkSession

from mooring.disk import is_folder
from mooring.errors import EngineError, Gathered
from mooring.model.problem.problem import Problem
from mooring.model.problem.site import Site
from mooring.spark.connectors.formats import check_format, check_works, is_of_files
from mooring.spark.definitions.definitions import Dataset, load_definitions
from mooring.spark.definitions.session_settings import use_settings
from mooring.spark.engine.draining import drain
from mooring.spark.engine.engine import EngineOptions, SparkEngine
from mooring.spark.engine.fragment_registry import OpenSession
from mooring.spark.pipeline.flow_refusals import refused_shared_files
from mooring.spark.pipeline.kept_graph import KeptGraph
from mooring.spark.pipeline.layout import Layout, cut_pipeline
from mooring.spark.pipeline.pipeline import FlowNode, Pipeline, read_pipeline
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.pipeline.project import (
    Project,
    load_project,
)
from mooring.spark.pipeline.project_edits import AcceptedEdits, ProjectEdits, project_edits
from mooring.spark.pipeline.site_options import site_options
from mooring.spark.pipeline.streams_used import unnamed_sinks
from mooring.spark.runs.apply_edits import finish, remember_sinks, settle, write_anew
from mooring.spark.runs.falling_back import falling_back
from mooring.spark.runs.known_root import KnownRoot
from mooring.spark.runs.left_sessions import LeftSessions
from mooring.spark.runs.mailbox import FileMailbox
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.run_lock import Hold, HoldOptions, held_project
from mooring.spark.runs.same_results import SameResults, same_results
from mooring.spark.runs.sharing_sites import sharing_once
from mooring.spark.runs.system_clock import SystemClock
from mooring.spark.sites.embedded_site import EmbeddedOptions
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from mooring.spark.sites.site_calls import SiteCalls
from mooring.spark.sites.sites import SiteHandle, SiteHandles, joining_site, running_sites
from mooring.spark.sites.waiting import Tell, say_nothing, waited_for
from mooring.spark.storage.fencing import retire
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.pipeline_record import forget_record, read_record
from mooring.spark.storage.result_record import RESULTS_FILE_NAME
from mooring.spark.storage.storage_root import StorageRoot, format_of, renew_mark
from mooring.spark.storage.views.versions import VIEWS
from mooring.spark.tables.registration import register_tables

_READING_S = 300.0
"""For Spark to analyse the flows: sources without a schema may be read for it."""
Anew = Callable[[Layout], Collection[str]]
"""Fragments that a run is to begin anew."""


@dataclass(frozen=True)
class PreparedRun:
    """A project whose sites are up and whose graph is known; nothing runs yet."""

    project: Project
    sites: SiteHandles
    layout: Layout
    problem: Problem
    files: RunFiles
    hold: Hold
    sessions: LeftSessions
    ended_leftovers: list[str]
    edits: ProjectEdits
    """What was edited since the last run, and is carried out before anything starts."""
    results: SameResults
    """What rows are computed with, here and before."""
    gone_back: list[str] = field(default_factory=list)
    """Fragments whose newest batches were damaged and are computed again, in words."""
    joining: list[str] = field(default_factory=list)
    """Sites that are kept empty and not up yet."""
    unregistered: list[str] = field(default_factory=list)
    """Tables that are in no catalog although they should be, and why, once an engine was asked for."""

    @contextlib.contextmanager
    def engine(
        self, options: EngineOptions | None = None, anew: Collection[str] = ()
    ) -> Iterator[SparkEngine]:
        """An engine over the sites; whatever still runs when the block ends is stopped. Fragments that are to
        begin `anew` forget what they have read and written.
        """
        queries = delivering(self.layout, self.problem)
        options = options or EngineOptions()
        self.results.settle(self.hold.owned, accept_edits=options.accept_edits)
        self._settle(options)
        if anew:
            refuse_unreached(self.sessions)
            write_anew(self.layout, anew)
        if self.project.settings.register:
            self._register()
        engine = SparkEngine(
            self.layout,
            self.sites,
            queries,
            options,
            note=self._note,
        )
        try:
            yield engine
        finally:
            engine.close()

    def bring_up(self, project: Project, site: Site) -> None:
        """Make a site known that joins; a revival starts it. `project` has it among its sites."""
        cluster = project.settings.clusters.get(site.name)
        self.sites.replace(joining_site(site, self.hold.sites_folder, site_options(project), cluster))

    def _register(self) -> None:
        """In the catalogs of endpoints that outlive the run; nobody else sees those of embedded sites."""
        for site in self.sites.values():
            if site.embedded is None and site.name not in self.joining:
                with _session_at(site, self.project.storage_root) as session:
                    self.unregistered.extend(register_tables(self.layout, site.name, session))

    def _note(self, sessions: Sequence[OpenSession]) -> None:
        """Another fragment starts; starting all of them may take longer than a turn of the loop ever does."""
        self.hold.pulse.sign()
        self.sessions.note(sessions, self.sites)

    def _settle(self, options: EngineOptions) -> None:
        calls, alive = SiteCalls(options.silence_s), self.hold.pulse.sign
        try:
            settle(
                self.edits, lambda change: drain(self.layout, change, self.sites, calls, alive, self._note)
            )
        finally:
            calls.close()

    @property
    def mailbox(self) -> FileMailbox:
        return FileMailbox(self.project.work_folder)

    @property
    def clock(self) -> SystemClock:
        return SystemClock()


@contextlib.contextmanager
def prepared_run(
    project: Project,
    *,
    fresh: bool = False,
    accepted: AcceptedEdits | None = None,
    options: EmbeddedOptions | None = None,
    holding: HoldOptions | None = None,
    left: Callable[[Path], Collection[str]] = lambda folder: (),
    anew: Anew = lambda layout: (),
) -> Iterator[PreparedRun]:
    """Own the project, start its sites, read its graph; everything ends with the block. What was edited since
    the last run is refused where it would lose something, unless it is `accepted`. `left` says, given the
    folder of the owner, which sites are kept empty: their machines may be down, so they join once they are
    up. What is damaged of fragments that are to begin `anew` is no reason to refuse anything.
    """
    files = RunFiles(project.work_folder)
    with held_project(project, files, holding, fresh=fresh) as hold:
        empty = set(left(hold.owned.folder))
        wanted = [site for site in project.settings.sites if site.name not in empty]
        chosen = site_options(project, options)
        start, clusters = wanted or project.settings.sites, project.settings.clusters
        with running_sites(start, hold.sites_folder, chosen, clusters) as sites:
            joining = [site for site in project.settings.sites if site.name not in sites]
            yield from _prepared(
                project,
                sites,
                files,
                hold,
                accepted,
                fresh=fresh,
                joining=joining,
                anew=anew,
                tell=say_nothing if holding is None else holding.tell,
            )


@contextlib.contextmanager
def prepared_on(
    project: Project, sites: SiteHandles, *, fresh: bool = False, accepted: AcceptedEdits | None = None
) -> Iterator[PreparedRun]:
    """The same over sites that are up already, and stay up."""
    files = RunFiles(project.work_folder)
    with held_project(project, files, fresh=fresh) as hold:
        yield from _prepared(project, sites, files, hold, accepted, fresh=fresh)


def _prepared(
    project: Project,
    sites: SiteHandles,
    files: RunFiles,
    hold: Hold,
    accepted: AcceptedEdits | None,
    *,
    fresh: bool,
    joining: Sequence[Site] = (),
    anew: Anew = lambda layout: (),
    tell: Tell = say_nothing,
) -> Iterator[PreparedRun]:
    sessions = LeftSessions(hold.owned.folder)
    ended = sessions.end_all(sites)
    if fresh or (accepted is not None and accepted.drop):
        refuse_unreached(sessions)
    if fresh:
        forget_everything(project, hold.owned)
    project, shared = sharing_once(project, sites)
    for note in shared:  # before a wait that comes of it
        tell(note)
    check_storage(project, sites, tell)
    layout = replace(read_layout(project, next(iter(sites.values())), tell), owner=hold.owned)
    layout = finish(layout, layout.before)
    given_up = {*anew(layout), *_gone(layout)}
    gone_back = falling_back(project, layout.before, hold.owned).fall_back(given_up)
    edits = project_edits(layout, accepted)
    problem = problem_of(edits.layout)
    results = same_results(project, sites.values(), used=bool(layout.before.fragments))
    prepared = PreparedRun(
        project, sites, edits.layout, problem, files, hold, sessions, ended, edits, results, gone_back
    )
    for site in joining:
        prepared.bring_up(project, site)
        prepared.joining.append(site.name)
    yield prepared


def _gone(layout: Layout) -> list[str]:
    """Fragments of the last run of which no flow is left: dropped, or else the run is refused."""
    flows = set(layout.pipeline.flows)
    return [name for name, members in layout.before.fragments.items() if not flows & set(members)]


def delivering(layout: Layout, problem: Problem) -> dict[str, str]:
    """Query or sink -> the fragment whose output it is."""
    by_operator = {operator.name: str(operator.fragment) for operator in problem.operators}
    queries = {query.name: by_operator[query.reads] for query in problem.queries}
    for sink in unnamed_sinks(layout):
        writers = layout.pipeline.writers(sink)
        for flow in writers:
            own = sink if len(writers) == 1 else f"{sink}:{flow.name}"
            queries.setdefault(own, layout.home[flow.name])
    return queries


def refuse_unreached(sessions: LeftSessions) -> None:
    """Before something stored is given up: nobody may still write there."""
    if left := sessions.left():
        raise EngineError(
            "queries of an earlier run may still write data that this command would delete: "
            f"{'; '.join(left)}",
            remedy=(
                "add those endpoints to mooring.yml and repeat the command, which ends the queries; "
                f"if a server no longer exists, remove its entries from {sessions.file}"
            ),
        )


def read_layout(project: Project, site: SiteHandle, tell: Tell = say_nothing) -> Layout:
    """The pipeline as Spark at `site` understands it, cut into fragments."""
    root = project.storage_root
    KnownRoot(project.work_folder).require(root.folder)
    root.create()
    (root.folder / "empty").mkdir(exist_ok=True)
    with (
        _session_at(site, root) as session,
        waited_for(session, site.name, "the analysis of the flows", patience_s=_READING_S, tell=tell),
    ):
        gather, spec = Gathered(), project.spec
        with gather.noting():
            use_settings(session, spec, project.spec_file, site.name)
        definitions = load_definitions(project.folder, spec, session, gather, skip=project.settings.skip)
        empty = root.address(root.folder / "empty")
        pipeline = read_pipeline(spec, definitions, session, empty, gather)
        for sink in pipeline.sinks:
            with gather.noting():
                _check_sink(session, sink, root)
        _check_shared_files(project, pipeline, gather)
        gather.raise_any()
        return cut_pipeline(project, pipeline)


def _check_sink(session: SparkSession, sink: Dataset, root: StorageRoot) -> None:
    what, scratch = f"the sink {sink.name!r}", root.folder / f".tried-{token_hex(4)}"
    check_format(session, sink.sink_format, what, str(sink.place))
    try:
        check_works(session, sink.sink_format, root.address(scratch), what, str(sink.place))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check_shared_files(project: Project, pipeline: Pipeline, gather: Gathered) -> None:
    """Files of a sink have one writer."""
    writers: dict[str, list[FlowNode]] = {}
    for flow in pipeline.flows.values():
        target = pipeline.datasets[flow.dataset]
        if target.kind == "sink" and is_of_files(target.sink_format):
            sink = project.sink_place(target.name, target.sink_format, target.sink_options.get("path", ""))
            if sink is not None:
                folder = sink.path if sink.folder is None else str(sink.folder.resolve())
                writers.setdefault(folder, []).append(flow)
    for folder, flows in writers.items():
        if len(flows) > 1:
            gather.note(refused_shared_files([flow.name for flow in flows], folder, flows[-1].place))


def check_storage(project: Project, sites: Mapping[str, SiteHandle], tell: Tell = say_nothing) -> None:
    """Every site that might see another folder, or none, under the storage root's path is asked.

    An embedded one on this machine with no path of its own sees what Mooring sees.
    """
    project.storage_root.create()
    for site in sites.values():
        check_storage_at(project, site, tell)


def check_storage_at(project: Project, site: SiteHandle, tell: Tell = say_nothing) -> None:
    """Ask one site, as after its return: a machine that came up before its mount would write into a folder
    that only looks like the storage.
    """
    root = project.storage_root
    if site.embedded is None or site.name in root.site_paths:
        with (
            _session_at(site, root) as session,
            waited_for(session, site.name, "a task that reads the storage", tell=tell),
        ):
            root.check_seen(session, site.name)


@contextlib.contextmanager
def _session_at(site: SiteHandle, root: StorageRoot) -> Iterator[SparkSession]:
    session = open_session(site.endpoint)
    try:
        root.introduce(session, site.name)
        yield session
    finally:
        close_session(session)


def read_project(folder: Path, *, reread: bool = False) -> tuple[Layout, Problem]:
    """The problem behind a project folder, with one site up just for reading it, unless its graph is known
    from before and not to be `reread`. What is wrong with `mooring.yml` is raised before a site is started;
    then all at once that is wrong in the definitions or in what an endpoint cannot take.
    """
    gather, project = Gathered(), _as_running(load_project(folder))
    graph = KeptGraph(project)
    kept = graph.read()
    with gather.noting():
        if kept is None or reread:
            layout = read_on_one_site(project)
            graph.keep(layout.pipeline)
        else:
            KnownRoot(project.work_folder).require(project.storage_root.folder)
            layout = replace(cut_pipeline(project, kept.pipeline), graph_kept_from=kept.read_at)
    with gather.noting():
        _check_endpoints(project)
    gather.raise_any()
    return layout, problem_of(layout)


def _as_running(project: Project) -> Project:
    """With relative paths as the run has them that is under way, if one is."""
    if RunFiles(project.work_folder).running_pid() is None:
        return project
    record = read_record(project.settings.storage)
    return replace(project, run_from=Path(record.run_from)) if record and record.run_from else project


def read_on_one_site(project: Project) -> Layout:
    """A project's pipeline, with one site up just for reading it."""
    reader = _reader(project)
    project.work_folder.mkdir(exist_ok=True)
    # A folder of its own: several commands may read one project side by side.
    with (
        tempfile.TemporaryDirectory(prefix="reader-", dir=project.work_folder) as own,
        running_sites([reader], Path(own), site_options(project)) as up,
    ):
        return read_layout(project, up[reader.name])


def _reader(project: Project) -> Site:
    sites = project.settings.sites
    existing = next((site for site in sites if site.connect is not None), None)
    return existing or Site(name="reader", capacity=sites[0].capacity)


def _check_endpoints(project: Project) -> None:
    """Endpoints that the pipeline was not read on may not take the spec's settings either. One that does not
    answer is for the run to say.
    """
    gather, reader = Gathered(), _reader(project)
    for site in project.settings.sites if project.spec.configuration else ():
        if site.connect is None or site.name == reader.name:
            continue
        with gather.noting(), contextlib.suppress(EngineError):
            session = open_session(Endpoint(site.connect))
            try:
                use_settings(session, project.spec, project.spec_file, site.name)
            finally:
                close_session(session)
    gather.raise_any()


def forget_everything(project: Project, owned: OwnedFolder) -> None:
    """Remove channels, links and checkpoints, so that the pipeline starts over from its sources.

    To be called when nothing of an earlier run can still write there. What cannot be removed is named: half
    a storage is neither a fresh start nor a resumed one.
    """
    storage, disk = project.settings.storage, owned.disk
    format_of(storage, disk)  # a newer one is refused: it may keep what we know nothing of
    record = None
    with contextlib.suppress(EngineError):  # a damaged one is a reason for --fresh
        record = read_record(storage, disk)
    try:
        remember_sinks(project, record, () if record is None else tuple(record.fragments), owned)
        # First: should the rest be cut short, the next run finds checkpoints without a record, and says so.
        forget_record(storage, owned.remove)
        owned.remove(storage / RESULTS_FILE_NAME)
        there = [owned.checkpoints / name for name in disk.list(owned.checkpoints)]
        for home in there:
            if is_folder(disk, home):
                retire(home, disk)
        for note in there:
            if note.name.startswith(".") and note.name.endswith(".fragment.json"):
                disk.delete(note)
        owned.forget_channels()
        for part in ("links", "channels", VIEWS):
            owned.remove(storage / part)
        renew_mark(storage, partial(owned.replace, on_disk=True), disk)
    except OSError as failure:
        raise EngineError(
            f"the storage {storage} cannot be cleared: {failure}",
            remedy="remove the rest by hand and repeat --fresh; nothing was started",
        ) from failure
