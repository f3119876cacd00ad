"""A row means the same at every site, and in every run over one storage: what can be compared is, before
anything starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from mooring.disk import DISK, Disk
from mooring.errors import EngineError, Gathered, InputError
from mooring.spark.definitions.result_settings import PREFIX, wanted_results
from mooring.spark.definitions.session_settings import shown_value
from mooring.spark.pipeline.project import Project
from mooring.spark.sites.endpoint import close_session, open_session, spark_version
from mooring.spark.sites.sites import SiteHandle
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.result_record import ResultRecord, read_results, write_results


@dataclass(frozen=True)
class SameResults:
    """What a run computes with, held against what the storage was computed with."""

    root: Path
    spec_file: Path
    now: ResultRecord
    before: ResultRecord | None
    notes: list[str] = field(default_factory=list)

    def settle(self, owned: OwnedFolder, *, accept_edits: bool) -> None:
        """Refuse settings that were edited, unless that is accepted; then write down the present ones."""
        gather = Gathered()
        for name, (old, new) in self.changed.items() if not accept_edits else ():
            gather.note(
                InputError(
                    f"the stored rows were computed with {_shown(name, old)}, and this run would compute "
                    f"with {_shown(name, new)}",
                    file=self.spec_file,
                    field=f"configuration.{name}",
                    remedy="undo the edit, compute the next rows in the new way (--accept-edits), or start "
                    "over (--fresh)",
                )
            )
        gather.raise_any()
        if self.before != self.now:
            write_results(self.root, self.now, owned)

    @property
    def changed(self) -> dict[str, tuple[str | None, str | None]]:
        return {} if self.before is None else self.before.changed(self.now)


def same_results(
    project: Project, sites: Iterable[SiteHandle], *, used: bool, disk: Disk = DISK
) -> SameResults:
    """Of the sites that are up. `used`: the storage has rows, or progress, of earlier runs."""
    now = ResultRecord(one_version(sites), wanted_results(project.spec.configuration))
    before, notes = read_results(project.settings.storage, disk), []
    if before is None and used:
        notes.append(
            "the storage has no record of the settings that its rows were computed with: an earlier Mooring "
            "wrote it, and left endpoints to their own. From now on every site computes with the same "
            f"({PREFIX}session.timeZone {now.settings[f'{PREFIX}session.timeZone']})"
        )
    if before is not None and before.spark != now.spark:
        notes.append(
            f"the stored rows were computed with Spark {before.spark}; the sites now run {now.spark}"
        )
    return SameResults(project.settings.storage, project.spec_file, now, before, notes)


def one_version(sites: Iterable[SiteHandle]) -> str:
    """Of Spark, at all of them; `EngineError` if they differ."""
    found = {site.name: version_at(site) for site in sites}
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{version} at {name}" for name, version in found.items())
        raise EngineError(
            f"the sites run different versions of Spark: {shown}. The same flow may compute other rows "
            "there, and one may not read the checkpoints of the other",
            remedy=f"run one version everywhere; embedded sites run that of `pip install` "
            f"({pyspark.__version__})",
        )
    return next(iter(found.values()), pyspark.__version__)


def version_at(site: SiteHandle) -> str:
    if site.embedded is not None:
        return str(pyspark.__version__)
    session = open_session(site.endpoint)
    try:
        return spark_version(session)
    finally:
        close_session(session)


def _shown(name: str, value: str | None) -> str:
    return f"{name} unset" if value is None else f"{name} {shown_value(name, value)}"
