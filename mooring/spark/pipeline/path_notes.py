"""Notes about the base of relative paths in a pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.spark.definitions.relative_paths import is_relative
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import Pipeline


def relative_paths(pipeline: Pipeline) -> dict[str, str]:
    """Path -> who reads or writes there, of those that do not start at a root."""
    found: dict[str, str] = {}
    for flow in pipeline.flows.values():
        for path in flow.relative_paths:
            found.setdefault(path, flow.name)
    for sink in pipeline.sinks:
        path = sink.sink_options.get("path", "")
        if is_relative(path):
            found.setdefault(path, f"the sink {sink.name}")
    return found


def path_notes(layout: Layout) -> list[str]:
    """All that there is to know of them; nothing where there are none."""
    paths, sites = relative_paths(layout.pipeline), layout.project.settings.sites
    said = []
    if paths and any(site.connect is None for site in sites):
        start = f"start{_s(paths)} at {layout.project.run_from}, the folder of the command"
        said.append(f"the relative {_shown(paths)} {start}, as under spark-pipelines")
    return [*said, *changed_path_notes(layout)]


def changed_path_notes(layout: Layout) -> Iterator[str]:
    """What a run has to say of them: that they lead elsewhere than those of the last one, or that nobody here
    knows where they lead.
    """
    if not (paths := relative_paths(layout.pipeline)):
        return
    before, now = layout.before.run_from, str(layout.project.run_from)
    if before and before != now:
        yield (
            f"the relative {_shown(paths)} started at {before} in the last run and start{_s(paths)} at "
            f"{now} now: run the command in {before} to continue with the same data"
        )
    existing = [repr(site.name) for site in layout.project.settings.sites if site.connect is not None]
    if existing:
        yield (
            f"at {', '.join(existing)} the relative {_shown(paths)} start{_s(paths)} in the folder that the "
            "server there was started in: give absolute paths"
        )


def _shown(paths: dict[str, str]) -> str:
    """
    >>> _shown({"./data": "orders"})
    "path './data' (orders)"
    """
    listed = ", ".join(f"{path!r} ({who})" for path, who in paths.items())
    return f"path{'s' * (len(paths) > 1)} {listed}"


def _s(paths: dict[str, str]) -> str:
    return "s" if len(paths) == 1 else ""
