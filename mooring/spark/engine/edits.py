"""Flows edited while the pipeline runs: definitions are read anew wherever a fragment starts, so a move or a
restart would silently run another version of it than the one whose state it goes on with.
"""

from __future__ import annotations

from mooring.errors import InputError
from mooring.model.deployment.fragments import Fragment
from mooring.spark.definitions.definitions import load_definitions, sources_digest
from mooring.spark.definitions.session_settings import use_settings
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import read_pipeline
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session


def refuse_edited(layout: Layout, fragment: Fragment, endpoint: Endpoint) -> None:
    """Refuse a fragment whose flows mean something else now than when the pipeline was read.

    Costs nothing while no file has changed; then the pipeline is analysed anew, since comments and layout do
    not count.
    """
    project = layout.project
    if sources_digest(project.folder, project.spec) == layout.sources:
        return
    session = open_session(endpoint)
    try:
        use_settings(session, project.spec, project.spec_file, endpoint.shown)
        definitions = load_definitions(project.folder, project.spec, session, skip=project.settings.skip)
        now = read_pipeline(project.spec, definitions, session, layout.empty).flows
    finally:
        close_session(session)
    before = layout.pipeline.flows
    for name in fragment.operators:
        if name not in now or now[name].fingerprint != before[name].fingerprint:
            raise InputError(
                f"the flow {name!r} was edited while the pipeline runs, so {fragment.name!r} cannot be "
                "started with the state it has",
                file=str(before[name].place),
                remedy="undo the edit, or stop the pipeline and run it again",
            )
