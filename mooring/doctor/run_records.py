"""The records of runs beside the data: the owner of the storage, the journal, and sessions left at sites."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from mooring.controller.journal import FORWARD, Journal
from mooring.doctor.diagnosis import Diagnosis, some
from mooring.doctor.epochs import look_at_epochs
from mooring.doctor.stored_parts import StoredParts
from mooring.errors import EngineError
from mooring.spark.ownership.owner import look
from mooring.spark.runs.left_sessions import place_of, read_entries
from mooring.spark.storage.learnt import COSTS_FILE_NAME, LEARNT, read_learnt
from mooring.spark.storage.owned_folder import OWNED, newest_owned


def look_at_owner(root: Path) -> Iterator[Diagnosis]:
    """Whether the last run let go of the storage."""
    if newest_owned(root) is None:
        if (root / "channels").exists():
            what = f"{root / OWNED} is missing, with all checkpoints, notes, the journal and open sessions"
            remedy = "restore it from a copy, or start the pipeline over with --fresh"
            yield Diagnosis("owner", OWNED, "lost", what, remedy)
        return
    yield from look_at_epochs(root / OWNED, "owner", OWNED)
    try:
        seen = look(root)
    except EngineError as damage:
        yield Diagnosis("owner", "record", "lost", damage.message, damage.remedy)
        return
    name = f"generation {seen.generation}"
    if seen.state == "free":
        yield Diagnosis("owner", name, "sound", "without an owner; the next run gets it immediately")
    elif seen.state == "gone":
        what = f"{seen.record} ended without releasing the storage"
        yield Diagnosis("owner", name, "pending", what, "the next run takes over immediately")
    else:
        what = f"{seen.record} has neither released the storage nor renewed its lease"
        yield Diagnosis("owner", name, "pending", what, "the next run takes over when the lease expires")


def look_at_journal(parts: StoredParts) -> Iterator[Diagnosis]:
    journal = Journal(parts.journal_folder, lambda: 0.0)
    if not journal.file.exists():
        if any(parts.checkpoint(name).is_dir() for name in parts.fragments()):
            what, todo = (
                "it is missing, so the last placement is unknown",
                "the next run makes a new placement",
            )
            yield Diagnosis("journal", journal.file.name, "pending", what, todo)
        return
    try:
        records, last, placement = journal.records(), journal.last_list(), journal.placement()
    except (EngineError, OSError, KeyError, TypeError) as damage:
        message = damage.message if isinstance(damage, EngineError) else f"{journal.file}: {damage!r}"
        yield Diagnosis("journal", journal.file.name, "lost", message, "restore it from a copy, or remove it")
        return
    if last is not None and not last.ended:
        what = f"a list of {len(last.moves)} moves was cut short after {last.done}"
        remedy = "the next run finishes it" if FORWARD[last.state] else "the next run takes it back"
        yield Diagnosis("journal", last.id, "pending", what, remedy)
    known = "no placement yet" if placement is None else f"the placement of {len(placement)} fragments"
    yield Diagnosis("journal", journal.file.name, "sound", f"{len(records)} records, {known}")


def look_at_learnt(root: Path) -> Iterator[Diagnosis]:
    """What runs have learnt of costs and rates: damage costs a plan its figures, and no row."""
    learnt = read_learnt(root)
    name = f"{LEARNT}/{COSTS_FILE_NAME}"
    for what in learnt.damage:
        yield Diagnosis("learnt", name, "pending", what, "the next run measures it again")
    if learnt.lines:
        flows = {line.flow for line in learnt.lines}
        yield Diagnosis("learnt", name, "sound", f"costs and rates of {len(flows)} flows")


def look_at_sessions(parts: StoredParts, sites: Mapping[str, str | None]) -> Iterator[Diagnosis]:
    """`sites`: those of the project as it is now, and where their endpoints are."""
    file = parts.sessions
    try:
        noted = read_entries(file.read_bytes())
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError) as damage:
        what = f"{file} cannot be read: {damage!r}"
        remedy = "end the queries that earlier runs left at existing endpoints, then remove the file"
        yield Diagnosis("sessions", file.name, "lost", what, remedy)
        return
    for at in sorted({place_of(entry) for entry in noted}):
        here = [entry for entry in noted if place_of(entry) == at]
        fragments = sorted(entry["fragment"] for entry in here)
        what = f"queries of {some(fragments)} may still run there, behind their fence"
        known = here[0].get("endpoint")
        listed = here[0]["site"] in sites if known is None else known in sites.values()
        remedy = "the next run ends them" if listed else "add the endpoint to mooring.yml again to end them"
        yield Diagnosis("sessions", at, "pending", what, remedy)
    if not noted:
        yield Diagnosis("sessions", file.name, "sound", "nothing was left running at existing endpoints")
