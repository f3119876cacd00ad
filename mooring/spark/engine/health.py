"""The health of a run: sites that ended or do not answer, and fragments that failed."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import PySparkException

from mooring.contracts.engine import Trouble
from mooring.errors import EngineError, OvertakenError, SiteBusyError, SiteLostError, described
from mooring.spark.engine.fragment_query import RunningFragment, flow_failure
from mooring.spark.engine.fragment_registry import Roster
from mooring.spark.engine.site_clocks import SiteClocks
from mooring.spark.pipeline.cut_changes import interrupted
from mooring.spark.pipeline.layout import Layout
from mooring.spark.sites.endpoint import first_line, site_lost
from mooring.spark.sites.site_calls import SiteCalls
from mooring.spark.sites.sites import SiteHandle, SiteHandles

LEAST_FREE_BYTES = 1_000_000
"""With less than this, batches fail for want of room."""


@dataclass(frozen=True)
class Health:
    layout: Layout
    sites: SiteHandles
    calls: SiteCalls
    roster: Roster
    clocks: SiteClocks
    to_the_end: bool = False
    """Fragments end by themselves once they have read what there is."""

    def dead_sites(self) -> list[Trouble]:
        """Sites whose process has ended: asks none of them, so it may be called often."""
        self.clocks.look()  # here, since nothing is called as often
        return [
            Trouble(name, None, SiteLostError(f"the site {name!r} ended by itself", remedy=f"see {log}"))
            for name, site in self.sites.items()
            if not site.is_alive()
            for log in [site.embedded.log_file if site.embedded else "its log"]
        ]

    def inspect(self) -> list[Trouble]:
        """Lost sites and failed fragments; of a lost site only the site."""
        found = self.dead_sites()
        lost = {trouble.site for trouble in found}
        for fragment in self.roster.running():
            if fragment.site in lost or self.roster.in_move(fragment.name):
                continue
            trouble = self._inspect(fragment)
            if trouble is not None and trouble.fragment is not None and not self.roster.stands(fragment):
                continue  # it was moved while it was being asked
            if trouble is not None:
                found.append(trouble)
                if trouble.fragment is None:
                    lost.add(trouble.site)
        return found

    def _inspect(self, fragment: RunningFragment) -> Trouble | None:
        query, name, site = fragment.query, fragment.name, fragment.site

        def ask() -> tuple[bool, object]:
            over = not query.isActive
            return over, query.exception() if over else None

        try:
            over, failure = self.calls.ask(site, ask)
        except SiteBusyError as busy:
            return Trouble(site, name, busy, unknown=True)
        except SiteLostError as lost:
            return Trouble(site, None, lost)
        except PySparkException as unanswered:
            return _unanswered(name, self.sites[site], unanswered)
        except OvertakenError:
            raise
        except Exception as odd:  # a mistake of ours says nothing about the fragment, which runs
            return Trouble(site, name, EngineError(f"it cannot be inspected: {described(odd)}"), unknown=True)
        if failure is not None:
            return Trouble(
                site, name, self._full_disk(name) or flow_failure(self.layout, name, site, str(failure))
            )
        if over and not (self.to_the_end and not interrupted(self.layout, name)):
            return Trouble(site, name, EngineError(f"the fragment {name!r} at {site!r} ended by itself"))
        return self._asleep(fragment)

    def _asleep(self, fragment: RunningFragment) -> Trouble | None:
        """Spark reckons the time of a query's next trigger by the wall clock, and sleeps until then. A query
        that saw a clock ahead by a month sleeps for a month once it is set right, and says nothing.
        """
        by_s = self.clocks.set_back_s(fragment.site, fragment.since_s)
        if not by_s or self.to_the_end or self.layout.pipeline.is_view(fragment.name):
            return None
        return Trouble(
            fragment.site,
            fragment.name,
            EngineError(
                f"the clock of {fragment.site!r} was set back by {by_s:.0f} s, so the query of "
                f"{fragment.name!r} may start no batch for that time"
            ),
        )

    def _full_disk(self, name: str) -> EngineError | None:
        """Spark says of many failures only that a task failed; that the disk is full is easy to see."""
        try:
            left = self.layout.disk.free_bytes(self.layout.root)
        except OSError:
            return None
        if left >= LEAST_FREE_BYTES:
            return None
        return EngineError(
            f"No space left on device: the disk of {self.layout.root} has {left} bytes left, and {name!r} "
            "could not write",
            remedy="free space; the query resumes by itself without loss",
        )


def _unanswered(name: str, handle: SiteHandle, failure: PySparkException) -> Trouble:
    """A session that is gone is the fragment's trouble, anything else the site's."""
    site, said = handle.name, handle.endpoint.without_secrets(first_line(failure))
    if "INVALID_HANDLE" in str(failure) or "SESSION" in said:
        gone = f"the session of {name!r} at {site!r} is gone, as after a restart of the site: {said}"
        return Trouble(site, name, EngineError(gone))
    return Trouble(site, None, site_lost(f"the site {site!r}", failure, handle.endpoint))
