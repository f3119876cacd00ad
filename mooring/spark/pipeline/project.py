"""A project folder: the pipeline spec beside `mooring.yml`, which says where things may run and what they
cost.

`mooring.yml` has the problem file's sections without `operators` (they come from the pipeline), plus those
below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.pipelines.cli import PipelineSpec

from mooring.agents.measured_latencies import measured_latencies
from mooring.agents.project_members import ProjectMembers, agents_of, read_addresses
from mooring.agents.transport.members import AgentAddress
from mooring.algorithms.catalogue import known_policy
from mooring.errors import Gathered, InputError, InputErrors
from mooring.model.problem.files import load_data
from mooring.model.problem.query import Query
from mooring.model.problem.reading.fields import (
    Check,
    boolean,
    fail,
    mapping,
    name,
    names,
    positive,
    read_fields,
    refuse_key,
)
from mooring.model.problem.schema import OPERATOR_FIELDS, QUERY_FIELDS
from mooring.model.problem.site import Site
from mooring.model.problem.stream import Stream
from mooring.model.problem.surroundings import (
    SITE_FIELDS,
    Surroundings,
    check_site,
    entries,
    read_surroundings,
)
from mooring.spark.definitions.names import PipelineNames
from mooring.spark.definitions.pipeline_spec import is_default, load_spec, spec_file_of, work_folder_of_spec
from mooring.spark.definitions.working_folder import command_folder
from mooring.spark.pipeline.cluster_settings import UI, read_cluster
from mooring.spark.pipeline.jvm_settings import JVM_FIELDS, read_jvm
from mooring.spark.pipeline.shared_clusters import counted_once, groups_of, read_shares
from mooring.spark.pipeline.statistics_file import (
    STATISTICS_FILE_NAME,
    MeasuredStatistics,
    read_statistics,
)
from mooring.spark.sites.site_jvm import SiteJvm
from mooring.spark.sites.spark_ui import Cluster
from mooring.spark.storage.retention import Keep, read_keep
from mooring.spark.storage.sink_numbers import SinkPlace, sink_place
from mooring.spark.storage.storage_root import StorageRoot

MEASURED = "measured"
"""In place of latencies: what agents have measured."""
ASSUMED_RATE = 100.0
"""Rows per second of a stream whose rate nobody stated or measured; a plan made with it says so."""
DURABLE, FAST = "durable", "fast"
SETTINGS_FILE_NAMES = ("mooring.yml", "mooring.yaml", "mooring.json")

_FIRST_SETTINGS = "`mooring init` writes one; `sites: {here: {capacity: 2}}` is enough"
_PROBLEM_SECTIONS = ("version", "sites", "latency_ms", "network", "streams", "queries", "goals")
_STATISTICS_FIELDS: dict[str, Check] = {
    key: OPERATOR_FIELDS[key]
    for key in (
        *("kind", "cost_us", "selectivity", "per_input", "window_s", "variable"),
        *("bytes", "memory_mb", "state_bytes", "movable", "fixed_cores", "error", "needs"),
    )
}


def _path_or_mapping(value: object, path: str) -> object:
    return mapping(value, path) if isinstance(value, Mapping) else name(value, path)


def _durability(value: object, path: str) -> str:
    if value not in (DURABLE, FAST):
        fail(path, f"{DURABLE} or {FAST}", value)
    return str(value)


_OWN: dict[str, Check] = {
    "statistics": mapping,
    "pins": mapping,
    "cuts": names,
    "skip": names,
    "tables": mapping,
    "storage": _path_or_mapping,
    "trigger_s": positive,
    "refresh_s": positive,
    "channel": name,
    "jars": names,
    "packages": names,
    "policy": known_policy,
    "register": boolean,
    "durability": _durability,
    "agents": mapping,
}


@dataclass(frozen=True)
class ProjectSettings:
    """What `mooring.yml` says, checked as far as that goes without the pipeline's graph."""

    around: Surroundings
    """Sites, streams and the network, as in a problem file."""
    goals: dict[str, Any] = field(default_factory=dict)
    """As in a problem file, with datasets or flows for operators; checked with the pipeline's graph."""
    queries: dict[str, Query] = field(default_factory=dict)
    """By name; what each reads is a dataset or sink of the pipeline."""
    statistics: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Per dataset (or flow): operator fields such as cost_us, selectivity, fixed_cores."""
    pins: dict[str, str] = field(default_factory=dict)
    """Dataset or flow -> site."""
    cuts: tuple[str, ...] = ()
    """Datasets whose output is a channel even where they could run together with their reader."""
    tables: dict[str, Keep] = field(default_factory=dict)
    """Table -> how long its rows are stored, where that is said."""
    skip: tuple[str, ...] = ()
    """Datasets, flows and definition files that are left out, with whatever needs them."""
    unrated: tuple[str, ...] = ()
    """Streams whose rate is not stated."""
    refreshes: dict[str, float] = field(default_factory=dict)
    """Materialized view -> its own `refresh_s`, where that is said under `tables`."""
    storage: Path = Path()
    """Root of channels and checkpoints, as Mooring and every site not in `storage_sites` sees it."""
    storage_sites: dict[str, str] = field(default_factory=dict)
    """Site -> the path under which it sees the same root."""
    trigger_s: float = 5.0
    """Seconds between micro-batches. Each costs a fixed part of a core, so 1 s is dear (docs/spark.md)."""
    refresh_s: float = 60.0
    """Seconds between two refreshes of a materialized view, at least. Each computes all of it."""
    policy: str = "rod"
    durability: str = DURABLE
    """`durable`: what is committed survives a power cut; `fast`: nothing of Spark's is synced to disk."""
    register: bool = False
    """Tables are registered in the catalogs of existing endpoints."""
    jars: tuple[str, ...] = ()
    """Paths, patterns and addresses of jars for embedded sites, beyond those of the spec."""
    packages: tuple[str, ...] = ()
    """Maven coordinates of the same."""
    jvms: dict[str, SiteJvm] = field(default_factory=dict)
    """Embedded site -> its heap and Java options, where they are stated."""
    clusters: dict[str, Cluster] = field(default_factory=dict)
    """Existing endpoint -> where its executors are seen, and how far it grows, where that is stated."""
    shares: dict[str, str] = field(default_factory=dict)
    """Existing endpoint -> another one that is an application on the same cluster."""
    agents: dict[str, AgentAddress] = field(default_factory=dict)
    """Site, or the runner -> where its agent listens, if not on this machine."""
    measures_latency: bool = False
    """`latency_ms: measured`: agents measure them."""
    latency_notes: tuple[str, ...] = ()
    """How measured latencies were come by, and what of them is missing."""

    @property
    def sites(self) -> tuple[Site, ...]:
        return self.around.sites

    @property
    def streams(self) -> dict[str, Stream]:
        return {stream.name: stream for stream in self.around.streams}


@dataclass(frozen=True)
class Project:
    folder: Path
    spec_file: Path
    spec: PipelineSpec
    settings_file: Path
    settings: ProjectSettings
    measured: MeasuredStatistics = field(default_factory=MeasuredStatistics)
    """From the statistics file that `mooring profile` writes; empty where there is none."""
    run_from: Path = field(default_factory=command_folder)
    """The folder of the command, where Spark at embedded sites takes relative paths to start."""

    @property
    def shown(self) -> str:
        """As a command line names it."""
        return str(self.folder) if is_default(self.spec_file) else f"--spec {self.spec_file}"

    @property
    def work_folder(self) -> Path:
        """Mooring's own files: logs, status, reports."""
        return work_folder_of_spec(self.spec_file)

    @property
    def members(self) -> ProjectMembers:
        """Who takes part in its agents."""
        sites = tuple(site.name for site in self.settings.sites)
        return agents_of(self.work_folder, sites, self.settings.agents)

    @property
    def storage_root(self) -> StorageRoot:
        return StorageRoot(self.settings.storage, self.settings.storage_sites)

    def sink_place(self, dataset: str, sink_format: str, path: str) -> SinkPlace | None:
        """None where the sink takes batches whatever their number."""
        remote = any(site.connect is not None for site in self.settings.sites)
        return sink_place(dataset, sink_format, path, self.run_from, remote=remote)


def work_folder_of(project: Path) -> Path:
    """Where a project keeps Mooring's own files, without reading what it says: it may be edited meanwhile."""
    return work_folder_of_spec(spec_file_of(project.resolve()))


def settings_files(spec_file: Path) -> list[Path]:
    """Where `mooring.yml` may be: beside the spec, and for one spec of several first under its own name."""
    names = SETTINGS_FILE_NAMES
    own = () if is_default(spec_file) else tuple(f"{spec_file.stem}.{name}" for name in names)
    return [spec_file.parent / name for name in (*own, *names)]


def load_project(project: Path) -> Project:
    """`project`: its folder, or its spec."""
    spec_file = spec_file_of(project.resolve())
    folder, spec = spec_file.parent, load_spec(spec_file)
    found = [file for file in settings_files(spec_file) if file.is_file()]
    if not found:
        raise InputError(
            "found no mooring.yml beside the pipeline spec",
            file=folder,
            remedy=_FIRST_SETTINGS,
        )
    try:
        settings = _read_settings(load_data(found[0]), work_folder_of_spec(spec_file), PipelineNames.of(spec))
    except InputError as error:
        for each in error.errors if isinstance(error, InputErrors) else (error,):
            each.file = each.file or str(found[0])
        raise
    return Project(
        folder, spec_file, spec, found[0], settings, read_statistics(folder / STATISTICS_FILE_NAME)
    )


def load_project_without_settings(project: Path) -> Project:
    """The same as if `mooring.yml` had a single site: to see what else is wrong where it cannot be read."""
    spec_file = spec_file_of(project.resolve())
    spec, work_folder = load_spec(spec_file), work_folder_of_spec(spec_file)
    settings = _read_settings({"sites": {"reader": {"capacity": 1}}}, work_folder, PipelineNames.of(spec))
    return Project(spec_file.parent, spec_file, spec, spec_file, settings)


def _read_settings(data: object, work_folder: Path, names: PipelineNames) -> ProjectSettings:
    """All that is wrong is raised at once."""
    if not isinstance(data, Mapping):
        fail("", "a mapping with at least sites", data, remedy=_FIRST_SETTINGS)
    gather = Gathered()
    own = _own_sections(data, names, gather)
    sections = {key: data[key] for key in _PROBLEM_SECTIONS if data.get(key) is not None}
    with gather.noting():
        for section in ("sites", "streams", "queries", "goals"):
            mapping(sections.get(section, {}), section)
        if not sections.get("sites"):
            fail("sites", "at least one entry", sections.get("sites"))
        sections["sites"], own["shares"] = read_shares(sections["sites"], gather)
        sections["sites"], own["jvms"] = _jvms(sections["sites"], gather)
        sections["sites"], own["clusters"] = _clusters(sections["sites"], work_folder.parent, gather)
        sections["streams"], own["unrated"] = _with_rates(sections.get("streams", {}), names)
        sites = tuple(map(str, sections["sites"]))
        own["agents"] = read_addresses(own.get("agents", {}), sites)
        if sections.get("latency_ms") == MEASURED:
            own["measures_latency"] = True
            measured = measured_latencies(agents_of(work_folder, sites, own["agents"]).members)
            sections["latency_ms"], own["latency_notes"] = measured.latency_ms, measured.notes
        around = read_surroundings(sections, work_folder.parent)
        around = replace(around, sites=counted_once(around.sites, groups_of(own["shares"])))
        with gather.noting():
            own["goals"] = dict(mapping(sections.get("goals") or {}, "goals"))
            own["queries"] = _queries(sections.get("queries") or {}, around, names)
        given = own.get("storage", f"{work_folder.name}/storage")
        own["storage"], own["storage_sites"] = _storage(given, work_folder, sorted(around.site_names))
    gather.raise_any()
    return ProjectSettings(around=around, **own)


def _own_sections(data: Mapping[str, Any], names: PipelineNames, gather: Gathered) -> dict[str, Any]:
    """What a problem file does not have."""
    with gather.noting():
        if "operators" in data:
            raise InputError(
                "found operators, which come from the pipeline's definitions",
                field="operators",
                remedy="give their costs under `statistics`, by dataset",
            )
    for key in data:
        with gather.noting():
            if key not in _PROBLEM_SECTIONS and key not in _OWN and key != "operators":
                refuse_key(key, [*_PROBLEM_SECTIONS, *_OWN], "")
    own: dict[str, Any] = {}
    for key in _OWN:
        with gather.noting():
            own |= read_fields({key: data[key]} if key in data else {}, _OWN, "")
    with gather.noting():
        if own.pop("channel", "files") != "files":
            fail("channel", "files, the only kind so far", data["channel"])
    own["cuts"] = tuple(names.key(key) for key in own.get("cuts", ()))
    readers: dict[str, Callable[[object, str], object]] = {
        "statistics": lambda raw, path: read_fields(raw, _STATISTICS_FIELDS, path),
        "pins": name,
    }
    for section, read in readers.items():
        entries_read = {}
        for key, raw in own.get(section, {}).items():
            with gather.noting():
                entries_read[names.key(str(key))] = read(raw, f"{section}.{key}")
        own[section] = entries_read
    own["tables"], own["refreshes"] = _tables(own.get("tables", {}), names, gather)
    return own


def _jvms(sites: Mapping[Any, Any], gather: Gathered) -> tuple[dict[Any, Any], dict[str, SiteJvm]]:
    """The section without what concerns the Java machines of embedded sites, and that."""
    rest, jvms = dict(sites), dict[str, SiteJvm]()
    for key, raw in sites.items():
        if not isinstance(raw, Mapping):
            continue
        own = {each: raw[each] for each in JVM_FIELDS if each in raw}
        rest[key] = {each: value for each, value in raw.items() if each in (*SITE_FIELDS, UI)}
        for unknown in raw.keys() - SITE_FIELDS.keys() - own.keys() - {UI}:
            with gather.noting():
                refuse_key(unknown, [*SITE_FIELDS, *JVM_FIELDS, UI], f"sites.{key}")
        if not own:
            continue
        with gather.noting():
            if "connect" in raw:
                refused = next(iter(own))
                raise InputError(
                    f"found {refused} for an existing endpoint, whose Java machine runs already",
                    field=f"sites.{key}.{refused}",
                    remedy="start that endpoint with it, and remove it here",
                )
            jvms[str(key)] = read_jvm(own, f"sites.{key}")
    return rest, jvms


def _clusters(
    sites: Mapping[Any, Any], folder: Path, gather: Gathered
) -> tuple[dict[Any, Any], dict[str, Cluster]]:
    """The section without what concerns executors of existing endpoints, and that."""
    rest, clusters = dict(sites), dict[str, Cluster]()
    for key, raw in sites.items():
        if not isinstance(raw, Mapping) or not (UI in raw or isinstance(raw.get("capacity"), Mapping)):
            continue
        rest[key] = {each: value for each, value in raw.items() if each not in (UI, "capacity")}
        rest[key]["capacity"] = 1.0  # what is wrong with the rest is said too
        with gather.noting():
            rest[key], clusters[str(key)] = read_cluster(raw, f"sites.{key}", folder)
    return rest, clusters


def _with_rates(streams: Mapping[Any, Any], names: PipelineNames) -> tuple[dict[Any, Any], tuple[str, ...]]:
    """The section with an assumed rate wherever none is stated, and the streams that got one."""
    rated = {names.key(key) if isinstance(key, str) else key: raw for key, raw in streams.items()}
    unrated = []
    for key, raw in rated.items():
        if raw is None:
            raw = {}
        if not isinstance(raw, Mapping) or "rate" in raw or "rates" in raw:
            continue
        bounds = [raw.get(bound) for bound in ("min_rate", "max_rate")]
        low, high = (bound if isinstance(bound, int | float) else ASSUMED_RATE for bound in bounds)
        rated[key] = {**raw, "rate": min(max(ASSUMED_RATE, low), high)}
        unrated.append(str(key))
    return rated, tuple(unrated)


def _tables(
    section: Mapping[str, Any], names: PipelineNames, gather: Gathered
) -> tuple[dict[str, Keep], dict[str, float]]:
    """How long rows are kept, by table, and how often views are refreshed, by view."""
    keeps, refreshes = dict[str, Keep](), dict[str, float]()
    for key, raw in section.items():
        with gather.noting():
            keep, refresh_s = _table(raw, f"tables.{key}")
            if keep is not None:
                keeps[names.key(str(key))] = keep
            if refresh_s is not None:
                refreshes[names.key(str(key))] = refresh_s
    return keeps, refreshes


def _table(raw: object, path: str) -> tuple[Keep | None, float | None]:
    fields = read_fields(raw, {"keep": read_keep, "merge": boolean, "refresh_s": positive}, path)
    keep, refresh_s = fields.get("keep"), fields.get("refresh_s")
    if keep is None and ("merge" in fields or refresh_s is None):
        fail(f"{path}.keep", "all, read, or a duration such as 7d", None)
    if isinstance(keep, Keep):
        keep = replace(keep, merge=bool(fields.get("merge", True)))
    assert keep is None or isinstance(keep, Keep)
    return keep, None if refresh_s is None else float(str(refresh_s))


def _queries(section: Any, around: Surroundings, names: PipelineNames) -> dict[str, Query]:
    """A query reads the dataset of its own name unless it says otherwise."""
    queries = {}
    for key, raw in entries(section, "queries"):
        path = f"queries.{key}"
        fields: dict[str, Any] = {"reads": key, **read_fields(raw, QUERY_FIELDS, path)}
        if "site" not in fields:
            fail(f"{path}.site", "the site it runs at", None)
        check_site(fields, around.site_names, path)
        fields["reads"] = names.key(fields["reads"])
        queries[key] = Query(name=key, **fields)
    return queries


def _storage(given: object, work_folder: Path, sites: list[str]) -> tuple[Path, dict[str, str]]:
    """The root as Mooring sees it, and the paths of sites that see it elsewhere."""
    folder = work_folder.parent
    if not isinstance(given, Mapping):
        return _root(str(given), "storage", folder), {}
    fields = read_fields(given, {"root": name, "sites": mapping}, "storage")
    root = _root(str(fields.get("root", f"{work_folder.name}/storage")), "storage.root", folder)
    paths = {}
    own_paths = mapping(fields.get("sites", {}), "storage.sites")
    for site, path in own_paths.items():
        at = f"storage.sites.{site}"
        if site not in sites:
            refuse_key(site, sites, "storage.sites")
        paths[str(site)] = _plain_path(name(path, at), at)
        if not Path(paths[str(site)]).is_absolute():
            fail(at, "an absolute path at that site", path)
    return root, paths


def _root(text: str, path: str, folder: Path) -> Path:
    """Relative paths start at the project."""
    return (folder / _plain_path(text, path)).resolve()


def _plain_path(text: str, path: str) -> str:
    text = text.removeprefix("file://")
    if "://" in text:
        fail(
            path,
            "a path on a file system that Mooring and all sites mount",
            text,
            remedy="mount a file system that renames files in one step (a local disk, NFS, CephFS, any "
            "cluster's), under a path of its own per site if need be; object stores cannot do that",
        )
    return text.rstrip("/") or "/"
