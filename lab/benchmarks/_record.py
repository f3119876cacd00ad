"""Results as files: docs/results/NAME.md says what was measured, by which command, with which code, where.

A measurement hands over its tables one by one; they are printed as they come, and with `--record` the record
and the list of all records are written in the end. Nobody edits either by hand.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.benchmarks import _machine
from mooring.cli.output.result_table import ResultTable

SEEDS_AT_ONCE = 250
RESULTS = _machine.ROOT / "docs" / "results"
RECORD = "--record"
INDEX = """\
# Results

Every figure that the guides quote is in one of these records. A benchmark or an experiment wrote each of
them, with the command, the commit, the date and the machine; `python -m lab.benchmarks NAME --record`
measures one anew. Nobody edits them by hand. Times depend on the machine and on what else it does, so read
ratios, and the load average beside them."""


@dataclass(frozen=True)
class Measurement:
    """A benchmark or an experiment that can be recorded."""

    name: str
    title: str
    """What it shows, in one line."""
    about: str
    """How to read it: a paragraph or more of Markdown."""
    measure: Callable[[Sequence[str]], Iterable[ResultTable | str]]
    """Takes the words after the name; gives tables, and sentences that say what they mean."""


def chosen_parts(words: Sequence[str], parts: Collection[str]) -> Sequence[str]:
    """The parts that were asked for, or all."""
    for word in words:
        if word not in parts:
            sys.exit(f"found {word!r}, expected one of {', '.join(parts)}")
    return words or list(parts)


def prose_of(docstring: str | None) -> str:
    """What a module says of itself after its first paragraph, without the commands, which are indented."""
    paragraphs = (docstring or "").strip().split("\n\n")[1:]
    return "\n\n".join(paragraph for paragraph in paragraphs if not paragraph.startswith(" "))


class KeptRows:
    """Of a long campaign: with a file, each row is kept there as it comes, and what the file has is not done
    again. So a campaign that was cut short goes on, and its record says with which code each part ran.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        # Of what runs, even if something else is checked out meanwhile; without a file one row is one run.
        self._commit = {} if file is None else {"commit": _machine.commit()}
        there = file is not None and file.exists()
        self._rows = [json.loads(line) for line in file.read_text().splitlines()] if file and there else []

    def of(self, part: str) -> list[dict[str, Any]]:
        return [row for row in self._rows if row["part"] == part]

    def add(self, part: str, row: Mapping[str, object]) -> None:
        self._rows.append({"part": part, **self._commit, **row})
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a") as kept:
                kept.write(json.dumps(self._rows[-1]) + "\n")

    def drawn(
        self, seeds: range, explored: Callable[[range], Mapping[str, object]]
    ) -> Iterator[ResultTable | str]:
        """Explores what is not there yet, some seeds at a time; a row for each commit, then the findings."""
        done = {row["first_seed"] for row in self.of("drawn")}
        for part in (seeds[at : at + SEEDS_AT_ONCE] for at in range(0, len(seeds), SEEDS_AT_ONCE)):
            if part.start not in done:
                began_s = time.process_time()
                found = explored(part)
                cpu_s = time.process_time() - began_s
                self.add("drawn", {"first_seed": part.start, "last_seed": part[-1], **found, "cpu_s": cpu_s})
        rows = self.of("drawn")
        commits = dict.fromkeys(row.get("commit") for row in rows)
        summed = [_summed([row for row in rows if row.get("commit") == commit]) for commit in commits]
        if summed:
            yield ResultTable.of("Drawn schedules", summed)
        yield from (row["finding"] for row in rows if row["finding"])


def _summed(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of one commit."""
    found = {name: rows[0][name] for name in ("commit", "first_seed") if name in rows[0]}
    found["first_seed"] = min(row["first_seed"] for row in rows)
    found["last_seed"] = max(row["last_seed"] for row in rows)
    counted = [name for name in rows[0] if name not in ("part", "finding", *found)]
    return {**found, **{name: sum(row[name] for row in rows) for name in counted}}


@dataclass(frozen=True)
class Provenance:
    """With what and when something was measured."""

    command: str
    commit: str
    date: str
    machine: str
    load_average: str
    versions: str
    took: str

    def table(self) -> ResultTable:
        fields = {
            "command": f"`{self.command}`",
            "commit": self.commit,
            "date": self.date,
            "machine": self.machine,
            "load average": self.load_average,
            "versions": self.versions,
            "took": self.took,
        }
        return ResultTable("", ("measured", "with"), tuple(fields.items()), (True, True))


def carry_out(measurement: Measurement, words: Sequence[str], folder: Path = RESULTS) -> None:
    """Measure and print; write the record if the words ask for it."""
    own = [word for word in words if word != RECORD]
    begun, cpu, load = time.monotonic(), _cpu_s(), _machine.load_average()
    # Of what runs, even if something else is checked out meanwhile; only a record needs git.
    commit = _machine.commit() if RECORD in words else ""
    parts: list[ResultTable | str] = []
    for part in measurement.measure(own):
        parts.append(part)
        print("\n".join(["", *_lines(part)]), flush=True)
    if RECORD not in words:
        return
    provenance = Provenance(
        command=f"python -m lab.benchmarks {measurement.name}{':' if own else ''}{','.join(own)} {RECORD}",
        commit=commit,
        date=datetime.now(UTC).date().isoformat(),
        machine=_machine.machine(),
        load_average=f"{load:.1f} before, {_machine.load_average():.1f} after",
        versions=_machine.versions(),
        took=f"{time.monotonic() - begun:.0f} s, {_cpu_s() - cpu:.0f} s of CPU",
    )
    write(measurement, parts, provenance, folder)


def write(
    measurement: Measurement, parts: Iterable[ResultTable | str], provenance: Provenance, folder: Path
) -> None:
    """The record, and the list of records with it."""
    folder.mkdir(parents=True, exist_ok=True)
    blocks = [f"# {measurement.name}: {measurement.title}", measurement.about]
    blocks += ["\n".join(_lines(part)) for part in parts]
    blocks += ["\n".join(provenance.table().markdown())]
    (folder / f"{measurement.name}.md").write_text("\n\n".join(blocks) + "\n")
    (folder / "README.md").write_text(index_text(folder))


def _lines(part: ResultTable | str) -> list[str]:
    if isinstance(part, str):
        return [part]
    return [f"**{part.title}**", "", *part.markdown()] if part.title else part.markdown()


def index_text(folder: Path) -> str:
    """The list of all records of a folder: what each shows, and of which day and code it is."""
    records = [file for file in sorted(folder.glob("*.md")) if file.name != "README.md"]
    table = ResultTable.of("", [_index_row(file) for file in records])
    return "\n\n".join([INDEX, "\n".join(table.markdown())]) + "\n"


def _index_row(file: Path) -> dict[str, str]:
    text = file.read_text()
    date, commit = (_found(rf"^\| {key} +\| (.*?) +\|$", text) for key in ("date", "commit"))
    title = _found(r"^# [^:]+: (.*)$", text)
    return {"record": f"[{file.stem}]({file.name})", "shows": title, "date": date, "commit": commit}


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""


def _cpu_s() -> float:
    """Of this process and of those it has waited for."""
    return sum(os.times()[:4])
