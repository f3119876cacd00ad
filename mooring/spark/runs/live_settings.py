"""`mooring.yml` edited while the project runs: what takes effect at once, and what with the next run.

Sites that are added join the run, and the network between sites counts from then on. Everything else waits:
what runs was started with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from mooring.arrays import Floats
from mooring.controller.session import RunSession
from mooring.errors import InputError, MooringError
from mooring.model.problem.latencies import among, same_latencies
from mooring.model.problem.network import Network
from mooring.model.problem.problem import Problem
from mooring.model.problem.site import Site
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline_problem import problem_of
from mooring.spark.pipeline.project import Project, ProjectSettings, load_project


@dataclass(frozen=True)
class LiveEdit:
    settings: ProjectSettings
    """What the run goes on with."""
    added: tuple[Site, ...]
    network: bool
    """Whether the network between the sites that were there before has changed."""
    waiting: tuple[str, ...]
    """What else has changed, by its place in the file: it takes effect with the next run."""


def live_edit(old: ProjectSettings, new: ProjectSettings) -> LiveEdit:
    """What an edit means for a run; `InputError` if it goes on with nothing of it."""
    known, named = [site.name for site in old.sites], {site.name: site for site in new.sites}
    if gone := [name for name in known if name not in named]:
        raise InputError(
            f"the site {gone[0]!r} was removed while the run uses it",
            field="sites",
            remedy=f"empty it with `mooring moves PROJECT --leave {gone[0]}`; the next run starts without it",
        )
    added = tuple(site for site in new.sites if site.name not in known)
    if elsewhere := [site.name for site in added if site.name in new.storage_sites]:
        raise InputError(
            f"the added site {elsewhere[0]!r} has a storage path of its own, which only a new run can use",
            field=f"storage.sites.{elsewhere[0]}",
            remedy="restart the run",
        )
    order = [list(named).index(name) for name in [*known, *(site.name for site in added)]]
    network = _reordered(new.around.network, order)
    around = replace(old.around, sites=(*old.sites, *added), network=network)
    before = _first(network, len(known))
    of_added = {site.name: new.jvms[site.name] for site in added if site.name in new.jvms}
    return LiveEdit(
        replace(old, around=around, jvms={**of_added, **old.jvms}),
        added,
        not _alike(before, old.around.network),
        tuple(_waiting(old, new, named)),
    )


def _waiting(old: ProjectSettings, new: ProjectSettings, named: dict[str, Site]) -> list[str]:
    found = [
        f"sites.{site.name}"
        for site in old.sites
        if named[site.name] != site or new.jvms.get(site.name) != old.jvms.get(site.name)
    ]
    if old.around.streams != new.around.streams:
        found.append("streams")
    for each in fields(ProjectSettings):
        if each.name not in ("around", "storage_sites", "jvms") and getattr(old, each.name) != getattr(
            new, each.name
        ):
            found.append(each.name)
    if old.storage_sites != new.storage_sites:
        found.append("storage.sites")
    return found


def _reordered(network: Network, order: Sequence[int]) -> Network:
    """The same with the sites in another order: `order[i]` is where the i-th was."""
    place = {was: now for now, was in enumerate(order)}

    def matrix(values: Floats | None) -> Floats | None:
        return None if values is None else values[np.ix_(order, order)]

    routes = {
        (place[i], place[j]): tuple(place[k] for k in passed) for (i, j), passed in network.routes.items()
    }
    return replace(
        network,
        latency_ms=None if network.latency_ms is None else among(network.latency_ms, order),
        bandwidth=matrix(network.bandwidth),
        routes=routes,
    )


def _first(network: Network, count: int) -> Network:
    """Between the first sites only."""

    latency_ms, bandwidth = network.latency_ms, network.bandwidth
    return replace(
        network,
        latency_ms=None if latency_ms is None else among(latency_ms, range(count)),
        bandwidth=None if bandwidth is None else bandwidth[:count, :count],
    )


def _alike(ours: Network, theirs: Network) -> bool:
    def same(one: Floats | None, other: Floats | None) -> bool:
        return one is other or (one is not None and other is not None and np.array_equal(one, other))

    plain = (ours.channel_ms, ours.comm_us, ours.routes) == (theirs.channel_ms, theirs.comm_us, theirs.routes)
    return (
        plain
        and same_latencies(ours.latency_ms, theirs.latency_ms)
        and same(ours.bandwidth, theirs.bandwidth)
    )


class SettingsWatch:
    """Says when a project's settings file has changed and lies still: who writes it may take a moment."""

    def __init__(self, project: Project) -> None:
        self._file = project.settings_file
        self._known = self._last = _look_of(self._file)

    def has_changed(self) -> bool:
        """Since the last time that this was said; costs one question to the file system."""
        now = _look_of(self._file)
        still, self._last = now == self._last, now
        if not still or now is None or now == self._known:
            return False
        self._known = now
        return True


def _look_of(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:  # between two halves of a replacement, say
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class Joining:
    """A site added to `mooring.yml` joins the run, without a restart. One per run; `look` is a chore of its
    session.

    The file is looked at with every turn. An edit that cannot be read, or that the run cannot go on with, is
    reported and changes nothing. A site that joins counts as lost for the moment: it is started, or tried
    until it answers, as any lost site is, and used from then on.
    """

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
            self._say(f"the edit of {project.settings_file.name} is ignored: {wrong}")
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
        said.append("the new network between the sites is used from now on")
    if edit.waiting:
        said.append(f"{_names(edit.waiting)} takes effect with the next run")
    return "; ".join(said) or "no change concerns the run"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)
