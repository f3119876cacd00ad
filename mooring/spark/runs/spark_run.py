"""A run session over a prepared Spark project."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from mooring.agents.agent_peers import decided_at_sites
from mooring.agents.embedded_agents import agents_of_run
from mooring.agents.runner_endpoint import RunnerPost
from mooring.agents.survey_agents import hosted_survey
from mooring.agents.transport.members import RUNNER
from mooring.algorithms.baselines.none_decider import NoneDecider
from mooring.algorithms.catalogue import hosted_protocol
from mooring.algorithms.headroom.decider import HeadroomDecider
from mooring.atomic_files import write_whole
from mooring.contracts.clock import ClockSteps
from mooring.contracts.decider import Decider
from mooring.controller.adaptation import Act
from mooring.controller.guards import GuardOptions
from mooring.controller.initial_placement import Beginning, Wish, begin
from mooring.controller.journal import Journal
from mooring.controller.move_list import InBackground
from mooring.controller.parts import Parts
from mooring.controller.session import RunSession, SessionOptions
from mooring.controller.state_estimator import SurveyOptions
from mooring.errors import EngineError, MooringError, OvertakenError
from mooring.model.deployment.update_order import UpdateOrder
from mooring.model.problem.problem import Problem
from mooring.model.problem.write import problem_to_json
from mooring.spark.engine.engine import EngineOptions
from mooring.spark.pipeline.shuffle_partitions import partition_notes, shuffling
from mooring.spark.pipeline.statistics_used import assumed_sentence, statistics_notes
from mooring.spark.runs.found_tables import find_tables
from mooring.spark.runs.live_settings import Joining
from mooring.spark.runs.project_run import PreparedRun, check_storage_at
from mooring.spark.runs.record.graph_drawing import graph_svg
from mooring.spark.runs.record.learning import Learning
from mooring.spark.runs.record.operation_statistics import operation_statistics
from mooring.spark.runs.record.run_report import Frame, RunRecord, placement_words, write_report
from mooring.spark.runs.run_recorder import RunBook
from mooring.spark.sites.site_revival import SiteRevival

PROBLEM_FILE_NAME = "problem.json"
"""The problem as the run understands it, for those who plan moves while it runs."""


@dataclass
class SparkRun:
    """From a prepared project to a session that runs, and a report of it."""

    prepared: PreparedRun
    wish: Wish
    say: Callable[[str], None] = lambda line: None
    """Called with what happens while it runs, a line at a time."""
    note: Callable[[str], None] = lambda line: None
    """Called with what should be known before it runs."""
    journal: Journal = field(init=False)
    beginning: Beginning = field(init=False)
    record: RunRecord = field(init=False)
    learning: Learning = field(init=False)
    problem: Problem = field(init=False)
    """With the sites that have joined."""
    update: UpdateOrder | None = None
    """It is one update, in this order. The rates at which it catches up say nothing of the streams."""
    decider: Decider | None = None
    """Proposes moves; `headroom` if not given. Nothing does during an update."""
    machines: str = ""
    """The algorithm whose machines decide at the sites. `decider` takes their place if no agent can host
    them."""
    act: Act = "propose"
    guards: GuardOptions | None = None
    frame: Frame | None = None
    """Makes the report's page, where a better one than plain tables can be made."""
    stopped_by: str = ""
    """Who ended it, as far as somebody said so."""

    def __post_init__(self) -> None:
        prepared, problem = self.prepared, self.prepared.problem
        self.problem = problem
        self.journal = Journal(prepared.hold.owned.folder, prepared.clock.now_s)
        self._noted_s: float | None = None
        with contextlib.suppress(EngineError):  # told where the journal is needed
            self._noted_s = max((float(each["at_s"]) for each in self.journal.records()[-1:]), default=None)
        self.beginning = begin(problem, self.journal, self.wish, self.note)
        self.record = RunRecord(
            prepared.project.spec.name,
            self.beginning.policy,
            self.beginning.placement.as_dict(),
            placement_words(prepared.layout, self.beginning.metrics, self.beginning.why),
            self.beginning.metrics.as_json(),
            sites={},
            notes=statistics_notes(prepared.layout),
            picture=partial(graph_svg, prepared.layout),
            storage=str(prepared.project.settings.storage),
            operation=None if self.update else operation_statistics(prepared.layout, problem),
        )
        self.learning = Learning(prepared.layout, prepared.clock)

    @contextlib.contextmanager
    def started(
        self,
        options: EngineOptions | None = None,
        pace: SessionOptions | None = None,
    ) -> Iterator[tuple[RunSession, RunBook]]:
        """Everything runs, or what an update begins with; when the block ends it is stopped between two
        micro-batches. Call `end` then.
        """
        prepared, project, update = self.prepared, self.prepared.project, self.update
        options = replace(options or EngineOptions(), to_the_end=update is not None)
        if update is not None and update.anew:
            self.journal.append("full refresh", fragments=list(update.anew))
        write_whole(project.work_folder / PROBLEM_FILE_NAME, problem_to_json(prepared.problem))
        try:
            with (
                prepared.engine(options, anew=update.anew if update else ()) as engine,
                contextlib.closing(
                    SiteRevival(prepared.sites, check=partial(check_storage_at, project))
                ) as revival,
                self._agents() as post,
            ):
                self.record.notes += [*prepared.unregistered, *prepared.gone_back]
                book = RunBook(prepared.problem, engine, prepared.files, self.record, self.say, self.learning)
                book.partitions = shuffling(prepared.layout)
                self.record.notes += partition_notes(book.partitions)
                session = RunSession(
                    prepared.problem,
                    engine,
                    prepared.clock,
                    prepared.mailbox,
                    journal=self.journal,
                    book=book,
                    reviver=revival,
                    replan=self.wish.replan,
                    decider=NoneDecider() if update else self._decider(post) or HeadroomDecider(),
                    act=self.act,
                    guards=self.guards,
                    survey=SurveyOptions(assumed=assumed_sentence(prepared.layout) is not None),
                    options=pace,
                    carrier=InBackground(),
                    alive=prepared.hold.pulse.sign,
                )
                book.parts = session.parts
                self.record.decider = session.adaptation.decider.name
                steps = ClockSteps(prepared.clock, session.note, self._noted_s)
                session.chores["watching the clock"] = steps.look
                session.chores["keeping the lease alive"] = prepared.hold.pulse.check
                if update is None:
                    joining = Joining(
                        prepared.layout,
                        session,
                        bring_up=prepared.bring_up,
                        adopted=partial(self._adopted, book),
                    )
                    session.chores["reading mooring.yml"] = joining.look
                starts = update.ready(begun=()) if update else None
                session.start(self.beginning.placement, self.beginning.policy, starts)
                self.record.sites = {name: site.note for name, site in prepared.sites.items()}
                for name in prepared.joining:
                    session.supervisor.expect(name)
                try:
                    yield session, book
                finally:
                    session.desk.abandon()
                self.stopped_by = session.desk.stopped_by
                revival.close()
                engine.stop_all(patience_s=2 * project.settings.trigger_s + 5)
                session.parts.do("data plane", "trimming the channels", engine.trim)
        except OvertakenError:  # the report, like everything else, is somebody else's
            raise
        except MooringError as failure:
            self.end(f"failed: {failure}")
            raise
        except BaseException:
            self.end("interrupted")
            raise

    def _adopted(self, book: RunBook, problem: Problem) -> None:
        """Sites have joined: those who plan moves learn of it, and so does the report."""
        self.problem = book.problem = problem
        write_whole(self.prepared.project.work_folder / PROBLEM_FILE_NAME, problem_to_json(problem))
        self.record.sites = {name: site.note for name, site in self.prepared.sites.items()}

    def _decider(self, post: RunnerPost | None) -> Decider | None:
        """Machines at the sites, where they are asked for and agents host them; the decider otherwise."""
        if self.decider is None or not self.machines:
            return self.decider
        if post is None:
            self.note(f"--adapt {self.machines}: no agents run, so {self.decider.name} decides in one place")
            return self.decider
        self.note(f"--adapt {self.machines}: the agents at the sites decide")
        project = self.prepared.project
        return decided_at_sites(
            self.machines,
            self.decider,
            self.prepared.problem,
            post,
            project.members.members.own_folder(RUNNER),
            states_latency=not project.settings.measures_latency,
        )

    @contextlib.contextmanager
    def _agents(self) -> Iterator[RunnerPost | None]:
        """Beside every embedded site, where the project asks for measured latencies or its sites are to
        decide; gives the way to them. A run goes on without them.
        """
        project, post = self.prepared.project, None
        asked = project.settings.measures_latency or bool(self.machines)
        with contextlib.ExitStack() as beside:
            if asked and self.update is None:
                embedded = [
                    site.name
                    for site in project.settings.sites
                    if site.connect is None and site.name not in project.settings.agents
                ]
                try:
                    protocols = [hosted_survey()]
                    if self.machines:
                        protocols.append(hosted_protocol(self.machines))
                    for warning in project.members.certificates.ending(
                        project.members.members.names, self.prepared.clock.now_s()
                    ):
                        self.note(warning)
                    post = beside.enter_context(
                        agents_of_run(project.spec_file, project.members, embedded, protocols)
                    )
                except MooringError as error:
                    self.note(f"no agents run: {error}")
            yield post

    def end(self, how: str) -> None:
        """Write the report; `how` says why it ended. The run is over, and a report that cannot be drawn or
        written does not make it a failure.
        """
        self.record.ended = how
        with contextlib.suppress(EngineError):  # the report says it too
            self.journal.append("stop", why=how, asked_by=self.stopped_by)
        with contextlib.suppress(Exception):  # the report is worth writing without it
            self.record.tables = [table.as_json() for table in find_tables(self.prepared.project.spec_file)]
        folder, parts = self.prepared.project.work_folder, Parts(self.note)
        if (operation := self.record.operation) is not None:
            learn = partial(self.learning.note, operation.figures(), last=True)
            parts.do("publishing", "writing down what was learnt", learn)
        if not parts.do(
            "publishing", "drawing the report", lambda: write_report(self.record, folder, self.frame)
        ):
            parts.do("publishing", "writing the report", lambda: write_report(self.record, folder))
