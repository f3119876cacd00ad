"""A first `mooring.yml`, written from a project's graph, with comments that say what each part is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.spark.pipeline.layout import Layout

_HEAD = """\
# Where the pipeline {name} runs; written by `mooring init`. Only `sites` is required.
# `mooring check` shows the graph, `mooring run` runs it.
"""
_SITES = """
# Small Spark servers that Mooring starts on this machine, with their cores. A cluster that runs
# already is a site too: cloud: {connect: "sc://host:15002", capacity: 8}
sites:
"""
_STREAMS = """
# Sources that the pipeline reads, by the dataset they feed. Any site can read them unless one is named:
# {site: SITE}. A run measures their rates; `rate: 1000` (rows per second) states one beforehand.
streams:
"""
_QUERIES = """
# What is consumed, and at which site: sinks, and streaming tables that no flow reads.
# `max_latency_ms: 60000` beside `site` states a limit.
queries:
"""
_MORE = """
# Further settings, with their defaults:
# trigger_s: 5                    # seconds between micro-batches; each costs CPU, however few its rows
# storage: {storage}       # channels, checkpoints and tables, on a file system that all sites see
# policy: rod                     # how places are chosen; `mooring policies` lists them
"""


def first_settings(name: str, sites: Mapping[str, float], layout: Layout | None, work_folder: str) -> str:
    """`sites`: name -> cores. Without a layout, of a pipeline that cannot be read yet, sites alone."""
    text = _HEAD.format(name=name) + _SITES
    text += "".join(f"  {site}: {{capacity: {cores:g}}}\n" for site, cores in sites.items())
    if layout is not None:
        first = next(iter(sites))
        text += _section(_STREAMS, [(stream, "{}", _reader_of(layout, stream)) for stream in layout.entries])
        text += _section(
            _QUERIES, [(dataset, f"{{site: {first}}}", what) for dataset, what in _consumed(layout).items()]
        )
    return text + _MORE.format(storage=f"{work_folder}/storage")


def _section(head: str, entries: Sequence[tuple[str, str, str]]) -> str:
    if not entries:
        return ""
    lines = [(f"  {_key(name)}: {value}", comment) for name, value, comment in entries]
    width = max(len(line) for line, _ in lines)
    return head + "".join(f"{line:{width}}  # {comment}\n" for line, comment in lines)


def _key(name: str) -> str:
    """Quoted where YAML would read something else than this name."""
    plain = name.replace("_", "a").replace(".", "a").replace("-", "a")
    words = ("yes", "no", "on", "off", "true", "false", "null")
    return name if plain.isalnum() and not name[0].isdigit() and name.lower() not in words else f'"{name}"'


def _reader_of(layout: Layout, stream: str) -> str:
    flows = [flow for flow in layout.pipeline.writers(stream) if flow.outside]
    return "read at " + ", ".join(str(flow.place) for flow in flows)


def _consumed(layout: Layout) -> dict[str, str]:
    """Sinks, and streaming tables that no flow reads, with what each is."""
    pipeline = layout.pipeline
    read = {name for flow in pipeline.flows.values() for name in (*flow.inputs, *flow.static)}
    kinds = {"sink": "sink", "table": "streaming table"}
    return {
        name: f"{kinds[dataset.kind]}, {dataset.place}"
        for name, dataset in pipeline.datasets.items()
        if dataset.kind in kinds and name not in read
    }
