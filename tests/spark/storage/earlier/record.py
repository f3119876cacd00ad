"""Records a storage as an earlier Mooring leaves it. It runs with the code of that one.

The project of this folder runs live until both sinks have twelve batches behind them. Then a list of two
moves begins, and `kill -9` ends the run within the second. The folder is packed, with `FOLDER` in place of
its own name and `ENDPOINT` in place of the address of the server.

    git worktree add --detach OLD 7afc9c0
    cp -r tests/spark/storage/earlier OLD/tests/spark/storage/
    cd OLD && python -m tests.spark.storage.earlier.record
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
PACKED = HERE / "storage-format-2.tar.gz"
LEFT_OUT = (
    "sites",
    "requests",
    "report.html",
    "report.json",
    "run.log",
    "status.json",
    "problem.json",
    "lock",
)
"""Of `.mooring/`, what is no part of a storage."""
BATCHES = 12
"""Files of input before the kill: so many that Spark has compacted its logs."""
ROWS = 5
_PATIENCE_S = 90.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NO_PROCESS = 2**22
"""Linux gives no process this number."""


def feed(folder: Path, number: int) -> None:
    """One file of rows; a row a quarter of an hour."""
    lines = []
    for n in range(number * ROWS, (number + 1) * ROWS):
        at = f"2024-01-{1 + n // 96:02d}T{n // 4 % 24:02d}:{n % 4 * 15:02d}:00Z"
        lines.append(json.dumps({"n": n, "at": at}))
    hidden = folder / "input" / f".{number}"
    hidden.write_text("\n".join(lines))
    hidden.rename(folder / "input" / f"{number:04d}.json")


def place(folder: Path, endpoint: str) -> None:
    """The project, at a folder and a server."""
    put = {"FOLDER": str(folder), "ENDPOINT": endpoint}
    for file in [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]:
        _replace_in(file, put)


def unpack(into: Path, endpoint: str) -> Path:
    """What was recorded, under another name; every stamp of time as it was."""
    with tarfile.open(PACKED) as packed:
        packed.extractall(into, filter="data")
    folder = into / "project"
    place(folder, endpoint)
    (owner,) = folder.glob(".mooring/storage/owned/*/owner.json")
    # The process that was killed ran on this machine, and is gone.
    here = {"host": socket.gethostname(), "boot": _BOOT.read_text().strip(), "pid": _NO_PROCESS}
    owner.write_text(json.dumps({**json.loads(owner.read_text()), **here}))
    return folder


def _replace_in(file: Path, put: dict[str, str]) -> None:
    before = content = file.read_bytes()
    if file.suffix in (".parquet", ".delta", ".snapshot"):
        return
    for old, new in put.items():
        content = content.replace(old.encode(), new.encode())
    if content != before:
        stamp = file.stat()
        file.write_bytes(content)
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def run_and_die(folder: Path) -> None:
    """In a process of its own."""
    import pytest

    from mooring.controller.initial_placement import Wish
    from mooring.controller.session import SessionOptions
    from mooring.model.placement.placement import FragmentSites, Placement
    from mooring.spark.pipeline.project import load_project
    from mooring.spark.runs.mailbox import FileMailbox
    from mooring.spark.runs.project_run import prepared_run
    from mooring.spark.runs.spark_run import SparkRun
    from mooring.spark.storage.stream_logs import last_batch
    from tests.spark.runs.mortal_site import MoveGate

    with pytest.MonkeyPatch.context() as patch, prepared_run(load_project(folder)) as made:
        gate = MoveGate(patch, _PATIENCE_S)
        begun = FragmentSites(dict.fromkeys(made.layout.fragments, "a"))
        run = SparkRun(made, Wish("rod", placement=lambda problem: Placement.from_fragments(problem, begun)))
        mailbox = FileMailbox(made.project.work_folder)
        with run.started(pace=SessionOptions(look_s=0.5)) as (session, _):

            def turn_until(happened: Callable[[], bool]) -> None:
                deadline = time.monotonic() + _PATIENCE_S
                while not happened():
                    assert time.monotonic() < deadline
                    session.turn()
                    time.sleep(0.05)

            logs = [folder / "out" / name / "_spark_metadata" for name in ("ledger", "hours")]
            for number in range(BATCHES):
                feed(folder, number)
                done = partial(_all_longer, logs, [last_batch(log) for log in logs])
                turn_until(done)
            gate.open.set()
            moves = [("into_hours", "a", "b"), ("into_ledger", "a", "b")]
            name = mailbox.ask(session.engine.homes(), moves)
            feed(folder, BATCHES)
            turn_until(lambda: session.engine.homes().get("into_hours") == "b")
            gate.open.clear()
            gate.arrived.clear()
            feed(folder, BATCHES + 1)
            turn_until(gate.arrived.is_set)
            assert (mailbox.answer(name) or {})["state"] == "running"
            os.kill(os.getpid(), signal.SIGKILL)


def _all_longer(logs: list[Path], before: list[int]) -> bool:
    from mooring.spark.storage.stream_logs import last_batch

    return all(last_batch(log) > was for log, was in zip(logs, before, strict=True))


def pack(folder: Path, endpoint: str) -> None:
    taken_back = {str(folder): "FOLDER", endpoint: "ENDPOINT"}
    for file in [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]:
        _replace_in(file, taken_back)
    work = folder / ".mooring"
    for name in LEFT_OUT:
        if (work / name).is_dir():
            shutil.rmtree(work / name)
        else:
            (work / name).unlink(missing_ok=True)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", compresslevel=9) as packed:
        packed.add(folder, "project")
    PACKED.write_bytes(made.getvalue())
    sys.stdout.write(f"{PACKED.name}: {PACKED.stat().st_size} bytes\n")


def main() -> None:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from mooring.spark.sites.java import find_java
    from tests.spark.quick_start import quick_start

    with tempfile.TemporaryDirectory(prefix="mooring-earlier-") as made:
        folder = Path(made) / "project"
        shutil.copytree(HERE / "project", folder)
        (folder / "input").mkdir()
        (folder / "out").mkdir()
        site = EmbeddedSite("a", Path(made), find_java(), capacity=2, options=quick_start())
        site.start()
        try:
            site.wait_ready()
            endpoint = site.endpoint.url
            place(folder, endpoint)
            died = subprocess.run([sys.executable, "-m", __spec__.name, str(folder)], check=False)
            assert died.returncode == -signal.SIGKILL, died
        finally:
            site.stop()
        pack(folder, endpoint)


if __name__ == "__main__":
    run_and_die(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
