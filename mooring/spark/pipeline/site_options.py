"""Options of a project's embedded sites: jars, settings of the spec, and the folder for relative paths.
Also which data of each site survives a power cut.
"""

from __future__ import annotations

from dataclasses import replace

from mooring.spark.connectors.fetched_jars import fetched_jars
from mooring.spark.connectors.wanted_jars import WantedJars, wanted_jars
from mooring.spark.definitions.session_settings import launch_settings
from mooring.spark.pipeline.project import FAST, Project
from mooring.spark.sites.class_archive import usable_archive
from mooring.spark.sites.embedded_site import EmbeddedOptions
from mooring.spark.sites.java import find_java
from mooring.spark.sites.local_files import SETTINGS
from mooring.spark.sites.spark_ui import SparkUi, UiError

_SYNCED = "committed batches survive"
_SYNCED_LATER = (
    "rows survive, and the batches of the last seconds are computed again; Mooring syncs Spark's files "
    "before it deletes their inputs"
)
_FAST = (
    "with `durability: fast`, only data that the operating system has written survives, and the run may "
    "have to start over with --fresh"
)


def site_options(project: Project, options: EmbeddedOptions | None = None) -> EmbeddedOptions | None:
    """`options` with what the project adds; fetches jars that are not here yet."""
    if all(site.connect is not None for site in project.settings.sites):
        return options
    java = find_java()
    base = options or EmbeddedOptions(class_archive=usable_archive(java))
    return replace(
        base,
        jars=fetched_jars(project_jars(project), java),
        settings={**launch_settings(project.spec, project.spec_file), **base.settings},
        working_folder=project.run_from,
        durable=project.settings.durability != FAST,
        of_sites=project.settings.jvms,
    )


def project_jars(project: Project) -> WantedJars:
    return wanted_jars(
        project.spec.configuration,
        project.settings.jars,
        project.settings.packages,
        folder=project.folder,
        spec_file=project.spec_file,
        settings_file=project.settings_file,
    )


def jar_notes(project: Project) -> list[str]:
    """Where jars of the project cannot go, in words."""
    existing = [site.name for site in project.settings.sites if site.connect is not None]
    wanted = project_jars(project)
    if not existing or not wanted:
        return []
    sites = ", ".join(repr(name) for name in existing)
    return [
        f"the project's jars reach embedded sites only; the existing endpoint(s) {sites} must start with "
        f"{', '.join(wanted.names)} (spark.jars or spark.jars.packages there)"
    ]


def executor_notes(project: Project, only: str | None = None) -> list[str]:
    """Where the executors of existing endpoints, or of one, are not seen, or are not what is stated, in
    words.
    """
    notes, settings = list[str](), project.settings
    for site in settings.sites:
        cluster = settings.clusters.get(site.name)
        if cluster is None or cluster.ui is None or only not in (None, site.name):
            continue
        ui = SparkUi(cluster.ui)
        try:
            seen = ui.look()
        except UiError as failure:
            notes.append(f"the executors of {site.name!r} are not seen, so its load is estimated: {failure}")
            continue
        ui.close()
        most, has = (
            cluster.most_cores or site.capacity,
            f"{len(seen.executors)} executors, {seen.cores} cores",
        )
        if seen.cores < site.capacity:
            notes.append(
                f"{site.name!r} has {has}, fewer than its capacity of {site.capacity:g}: plans count on more "
                "than is there; start workers, or state what there is"
            )
        elif seen.cores > most:
            notes.append(
                f"{site.name!r} has {has}, more than the {most:g} stated: a run counts with "
                + (f"{most:g}" if cluster.most_cores else "them, and plans do once `capacity` says so")
            )
    return notes


def power_cut_notes(project: Project) -> dict[str, str]:
    """What survives a power cut, by site."""
    own = launch_settings(project.spec, project.spec_file)
    hadoops = bool(own.keys() & SETTINGS.keys())
    return {
        site.name: _FAST
        if project.settings.durability == FAST
        else _SYNCED_LATER
        if site.connect or hadoops
        else _SYNCED
        for site in project.settings.sites
    }
