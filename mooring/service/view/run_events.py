"""The events of a run: the journal as a list for people, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mooring.controller.journal import Record
from mooring.controller.records import STARTED_AGAIN

MOST = 60
_ENDS = {
    "done": "done",
    "rolled back": "taken back",
    "turned back": "being taken back",
    "abort": "being aborted",
}


def happenings(
    records: Sequence[Record],
    ledger: Sequence[Mapping[str, Any]],
    incidents: Sequence[Mapping[str, Any]] = (),
) -> list[dict[str, object]]:
    """Lists of moves with who asked for them and, where the ledger has them, both figures; starts and stops;
    sites left and used again; what was lost and came back.
    """
    found = list(_from(records))
    found += [_line(float(each["at_s"]), "incident", str(each["what"]), "") for each in incidents]
    for entry in ledger:
        _add_figures(found, entry)
    return sorted(found, key=lambda each: float(str(each["at_s"])), reverse=True)[:MOST]


def _from(records: Sequence[Record]) -> Iterator[dict[str, object]]:
    lists: dict[str, dict[str, object]] = {}
    for record in records:
        kind, at_s = record["kind"], float(record.get("at_s") or 0.0)
        asked_by = str(record.get("asked_by") or "")
        if kind == "list":
            what = "move " + ", ".join(f"{move[0]} {move[1]} → {move[2]}" for move in record["moves"])
            lists[record["id"]] = shown = _line(at_s, "move", what, asked_by) | {"state": "under way"}
            yield shown
        elif kind == "step" and record.get("stage") == "done" and record["list"] in lists:
            shown = lists[record["list"]]
            shown["pause_s"] = max(float(str(shown.get("pause_s") or 0.0)), float(record["pause_s"]))
        elif kind in _ENDS and record.get("list") in lists:
            lists[record["list"]]["state"] = _ENDS[kind]
        elif kind == "stop":
            yield _line(at_s, "stop", str(record.get("why") or "stopped"), asked_by)
        elif kind == "placement" and (record.get("sites") or record.get("why") == STARTED_AGAIN):
            yield _line(at_s, "recovery", f"{STARTED_AGAIN}: {_where(record.get('sites') or {})}", "")
        elif kind == "placement":
            yield _line(at_s, "placement", f"placed: {record.get('why') or 'by hand'}", "")
        elif kind == "relocated":
            why = record.get("why") or STARTED_AGAIN
            yield _line(at_s, "recovery", f"{why}: {_where(record['sites'])}", "")
        elif kind == "dismissed":
            what = ", ".join(f"{move[0]} {move[1]} → {move[2]}" for move in record["moves"])
            yield _line(at_s, "dismissed", f"dismissed: {what}", asked_by)
        elif kind in ("left", "returned"):
            done = "is kept empty" if kind == "left" else "is used again"
            yield _line(at_s, "site", f"{record.get('site')} {done}", asked_by)


def _where(sites: Mapping[str, str]) -> str:
    return ", ".join(f"{name} at {site}" for name, site in sites.items()) or "fragments that it did not note"


def _line(at_s: float, kind: str, what: str, asked_by: object) -> dict[str, object]:
    return {"at_s": at_s, "kind": kind, "what": what, "asked_by": str(asked_by), "state": ""}


def _add_figures(found: list[dict[str, object]], entry: Mapping[str, Any]) -> None:
    """To the list of the same moves that came next after the promise; or as a line of its own."""
    what = "move " + ", ".join(f"{m['fragment']} {m['from']} → {m['to']}" for m in entry["moves"])
    figures = {
        "promised": entry["promised"],
        "before": entry["before"],
        "measured": entry["after"],
        "verdict": entry["verdict"],
    }
    for each in found:
        if (
            each["what"] == what
            and "promised" not in each
            and float(str(each["at_s"])) >= entry["at_s"] - 5.0
        ):
            each.update(figures)
            return
    found.append(_line(entry["at_s"], "move", what, f"adapting: {entry['decider']}") | figures)
