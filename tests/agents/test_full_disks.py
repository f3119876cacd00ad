"""An agent whose disk takes no more promises nothing that it could forget, and goes on once there is room."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mooring.agents.agent import Agent, AgentSettings
from mooring.agents.bounded_log import BoundedLog
from mooring.agents.durable_state import DurableState
from mooring.agents.transport.certificates import CertificateFolder
from mooring.agents.transport.members import Members
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.contracts.site_machine import Asked, Effect, Event, Output, Persist, Started
from mooring.disk import RealDisk, Tag
from mooring.errors import EngineError, InputError
from tests.agents.scene import EAGER, until

ROOM_BYTES = 1 << 20


class Promiser:
    """Gives out numbers, each once, and says on request which it gave last."""

    def __init__(self) -> None:
        self.given = 0

    def next_timer(self) -> float | None:
        return None

    def handle(self, event: Event, now_ms: float) -> Sequence[Effect]:
        match event:
            case Started(durable=int(kept)):
                self.given = kept
            case Asked(request="give"):
                self.given += 1
                return (Persist(self.given), Output(f"gave {self.given}"))
            case Asked():
                return (Output(f"the last was {self.given}"),)
        return ()


class FailingDisk(RealDisk):
    """Refuses to replace files while `errno` is set; `too_late`: after the new file is in its place."""

    def __init__(self, code: int, *, too_late: bool = False) -> None:
        self.code, self.too_late, self.fails = code, too_late, False

    def replace(
        self,
        path: Path,
        data: bytes,
        *,
        tag: Tag | None = None,
        through: Path | None = None,
        durable: bool = True,
        mode: int | None = None,
    ) -> None:
        if self.fails and not self.too_late:
            raise OSError(self.code, os.strerror(self.code), str(path))
        super().replace(path, data, tag=tag, through=through, durable=durable, mode=mode)
        if self.fails:
            raise OSError(self.code, os.strerror(self.code), str(path.parent))


class FullDisk(RealDisk):
    """A small file system of its own: `fails` fills it up and empties it."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    @property
    def fails(self) -> bool:
        return self._ballast.exists()

    @fails.setter
    def fails(self, full: bool) -> None:
        if not full:
            self._ballast.unlink()
            return
        with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)


@contextlib.contextmanager
def disk_of(kind: str, folder: Path) -> Iterator[FailingDisk | FullDisk]:
    if kind != "full":
        code = errno.ENOSPC if kind == "no room" else errno.EIO
        yield FailingDisk(code, too_late=kind == "folder not synced")
        return
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield FullDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("kind", ["full", "no room", "broken", "folder not synced"])
def test_what_cannot_be_written_is_not_promised(
    kind: str, members: Members, certificates: CertificateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.agents.machine_host.RESTART_S", 0.0)
    told: list[object] = []
    promises = HostedProtocol(
        "promises",
        lambda site, sites, generator: Promiser(),
        str,
        int,
        requests=str,
    )

    def keep(members: Members, keeper: str, output: object) -> None:
        told.append(output)

    async def play(disk: FailingDisk | FullDisk) -> None:
        settings = AgentSettings("athens", members, certificates, back_off=EAGER, disk=disk)
        log = io.StringIO()
        own = Agent(settings, [promises], log, keep={"promises": keep})
        silent = own.endpoint.counts
        async with own.running():
            own.ask("promises", "give")
            disk.fails = True
            own.ask("promises", "give")  # as if it came from a peer: nobody else hears that it failed
            own.ask("promises", "what")
            await until(lambda: silent["state not written"] > 20)
            own.ask("promises", "give")
            assert told == ["gave 1"]
            assert len(log.getvalue().splitlines()) < 12
            disk.fails = False
            host = own._hosts["promises"]
            await until(lambda: host._machine is not None)
            own.ask("promises", "what")
            own.ask("promises", "give")
            assert told == ["gave 1", "the last was 1", "gave 2"]
        again = Agent(settings, [promises], log, keep={"promises": keep})
        async with again.running():
            again.ask("promises", "what")
        assert told[-1] == "the last was 2"

    with disk_of(kind, members.own_folder("athens")) as disk:
        asyncio.run(play(disk))


def test_an_agent_does_not_begin_on_a_full_disk(members: Members, certificates: CertificateFolder) -> None:
    disk = FailingDisk(errno.ENOSPC)
    disk.fails = True
    settings = AgentSettings("athens", members, certificates, disk=disk)
    with pytest.raises(EngineError, match="cannot write its state"):
        Agent(settings, [], io.StringIO())
    begun = Agent(replace(settings, disk=RealDisk()), [], io.StringIO())
    begun._state.close()
    begun._trace.close()
    assert begun.incarnation == 0


def test_one_changed_character_of_the_memory_is_noticed(tmp_path: Path) -> None:
    state = DurableState(tmp_path, [])
    state.begin()
    state.persist("promises", 41)
    state.close()
    file = tmp_path / "durable.json"
    file.write_bytes(file.read_bytes().replace(b"41", b"42"))
    with pytest.raises(InputError, match="checksum"):
        DurableState(tmp_path, [])


def test_the_memory_of_an_earlier_version_is_taken(tmp_path: Path) -> None:
    (tmp_path / "durable.json").write_bytes(b'{"incarnation":7,"machines":{"promises":3}}')
    with contextlib.closing(DurableState(tmp_path, [])) as state:
        assert state.begin() == 7


def test_a_state_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    """JSON has no infinity: it would come back as null, and the agent would never begin again."""
    measured = HostedProtocol("measured", lambda site, sites, generator: Promiser(), str, float)
    state = DurableState(tmp_path, [measured])
    with pytest.raises(ValueError, match="cannot be kept"):
        state.persist("measured", float("inf"))
    state.persist("measured", 1.0)
    state.close()
    with contextlib.closing(DurableState(tmp_path, [measured])) as again:
        assert again.of("measured") == 1.0


def test_a_log_grows_by_the_logarithm_of_what_is_said() -> None:
    out = io.StringIO()
    log = BoundedLog(out)
    for _ in range(5_000):
        try:
            raise ValueError("as planted")
        except ValueError as error:
            log.failure("gossip failed", error)
    for number in range(1_000):
        log.line(f"another {number}")
    assert len(out.getvalue()) < 40_000
    assert "for the 4096th time" in out.getvalue()
