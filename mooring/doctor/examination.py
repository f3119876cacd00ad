"""One look at everything that a project has stored, while it does not run. Nothing is changed, made or locked
for longer than a look.
"""

from __future__ import annotations

import contextlib
import stat
from dataclasses import dataclass
from pathlib import Path

from mooring.doctor.channels import look_at_channels
from mooring.doctor.checkpoints import look_at_checkpoints
from mooring.doctor.diagnosis import Diagnosis
from mooring.doctor.pipeline import look_at_record, look_at_sinks
from mooring.doctor.run_records import look_at_journal, look_at_learnt, look_at_owner, look_at_sessions
from mooring.doctor.storage import look_at_root
from mooring.doctor.stored_parts import StoredParts
from mooring.doctor.views import look_at_views
from mooring.errors import EngineError
from mooring.spark.pipeline.project import Project, load_project
from mooring.spark.runs.falling_back import falling_back, recorded_sink
from mooring.spark.runs.found_run import find_run
from mooring.spark.runs.known_root import KnownRoot
from mooring.spark.runs.run_files import RunFiles
from mooring.spark.runs.system_clock import SystemClock
from mooring.spark.storage.owned_folder import OwnedFolder, newest_owned
from mooring.spark.storage.pipeline_record import read_record


@dataclass(frozen=True)
class Examination:
    project: Path
    storage: Path
    findings: tuple[Diagnosis, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is lost."""
        return all(finding.state != "lost" for finding in self.findings)

    def as_json(self) -> dict[str, object]:
        return {
            "version": 1,
            "project": str(self.project),
            "storage": str(self.storage),
            "sound": self.is_sound,
            "findings": [finding.as_json() for finding in self.findings],
        }


def examine(folder: Path) -> Examination:
    """`EngineError` if the project runs: what it writes would look torn, and be whole a moment later."""
    project = load_project(folder)
    root, known = project.settings.storage, KnownRoot(project.work_folder)
    if (missing := known.missing(root)) is not None and RunFiles(project.work_folder).running_pid() is None:
        findings = [*look_at_root(root, known.path(), missing), *_settings(project)]
        return Examination(project.folder, root, tuple(findings))
    found = find_run(folder, SystemClock())
    if found.pid is not None or (found.elsewhere is not None and found.silent_s == 0.0):
        where = f"as process {found.pid}" if found.elsewhere is None else str(found.elsewhere)
        raise EngineError(
            f"the project runs {where} and maintains its storage itself",
            remedy="use `mooring status`, or end it with `mooring stop` first",
        )
    findings = [*look_at_root(root, known.path()), *look_at_owner(root)]
    if (owned := newest_owned(root)) is not None:
        parts = _stored_parts(project, owned)
        sites = {
            site.name: None if site.connect is None else str(site.connect.address)
            for site in project.settings.sites
        }
        findings += [*look_at_record(parts), *look_at_channels(parts), *look_at_checkpoints(parts)]
        findings += [*look_at_views(parts), *look_at_sinks(parts)]
        findings += [*look_at_journal(parts), *look_at_sessions(parts, sites), *look_at_learnt(root)]
    findings += [*_settings(project), *_certificates(project)]
    return Examination(project.folder, root, tuple(findings))


def _stored_parts(project: Project, owned: OwnedFolder) -> StoredParts:
    root, record = project.settings.storage, None
    with contextlib.suppress(EngineError):  # told where the record is looked at
        record = read_record(root)
    if record is None:
        return StoredParts(root, owned)
    sinks = {name: recorded_sink(project, record, name) for name in record.fragments}
    written = {name: sink for name, sink in sinks.items() if sink is not None}
    return StoredParts(root, owned, falling_back(project, record, owned), written)


def _certificates(project: Project) -> list[Diagnosis]:
    """Those of agents that end soon."""
    folder, names = project.members.certificates, project.members.members.names
    return [
        Diagnosis("settings", "certificates", "pending", what.partition(":")[0], what.partition(": ")[2])
        for what in folder.ending(names, SystemClock().now_s())
    ]


def _settings(project: Project) -> list[Diagnosis]:
    """A token that everybody on this machine can read."""
    open_to_all = project.settings_file.stat().st_mode & stat.S_IROTH
    told = [
        site.name
        for site in project.settings.sites
        if site.connect is not None and (site.connect.address.token or site.connect.address.headers)
    ]
    if not (open_to_all and told):
        return []
    what = f"holds the token of {', '.join(told)}, and every user of this machine can read it"
    remedy = "chmod 600 it, or use token_env or token_file"
    return [Diagnosis("settings", project.settings_file.name, "pending", what, remedy)]
