"""A site added to `mooring.yml` joins the run, without a restart.

The file is looked at with every turn. An edit that cannot be read, or that the run cannot go on with, is said
and changes nothing. A site that joins is one that is lost for the moment: it is started, or asked until it
answers, as any lost site is, and used from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mooring.controller.session import RunSession
from mooring.errors import MooringError
from mooring.model.problem.problem import Problem
from mooring.model.problem.site import Site
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.pipeline.project import Project, load_project
from mooring.spark.runs.live_settings import LiveEdit, SettingsWatch, live_edit


class Joining:
    """One per run; `look` is a chore of its session."""

    def __init__(
        self,
        layout: Layout,
        session: RunSession,
        *,
        bring_up: Callable[[Project, Site], None],
        adopted: Callable[[Problem], None],
    ) -> None:
        """`bring_up` makes a site known that is to be started; `adopted` is called with what is run from now
        on.
        """
        self._layout, self._session = layout, session
        self._bring_up, self._adopted = bring_up, adopted
        self._watch = SettingsWatch(layout.project)

    def look(self) -> None:
        if not self._watch.has_changed():
            return
        project = self._layout.project
        try:
            edit = live_edit(project.settings, load_project(project.spec_file).settings)
            layout = replace(self._layout, project=replace(project, settings=edit.settings))
            problem = problem_of(layout)
            for site in edit.added:
                self._bring_up(layout.project, site)
        except MooringError as wrong:
            self._say(f"the edit of {project.settings_file.name} is not used: {wrong}")
            return
        self._say(f"{project.settings_file.name} was edited: {_in_words(edit)}")
        if edit.added or edit.network:
            self._layout = layout
            self._session.adopt(problem)
            self._adopted(problem)

    def _say(self, what: str) -> None:
        self._session.edit = what
        self._session.note(what)


def _in_words(edit: LiveEdit) -> str:
    said: list[str] = []
    if edit.added:
        said.append(f"{_names([site.name for site in edit.added])} joins")
    if edit.network:
        said.append("the network between the sites counts from now on")
    if edit.waiting:
        said.append(f"{_names(edit.waiting)} takes effect with the next run")
    return "; ".join(said) or "nothing that concerns the run"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)
