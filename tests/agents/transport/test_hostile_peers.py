"""Whoever comes and whatever they send: nothing is harmed, and it is counted by what was wrong."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from mooring.agents.transport.certificates import CertificateFolder, tls_context
from mooring.agents.transport.endpoint import MemberEndpoint
from mooring.agents.transport.frames import framed, read_frame
from mooring.agents.transport.members import AgentAddress, Members
from mooring.agents.transport.wire import WIRE_VERSION, Envelope, Greeting, encode_envelope, encode_greeting
from tests.agents.scene import EAGER, until


@dataclass
class Scene:
    """An endpoint named athens that takes whatever comes, and good berlin beside whoever is bad."""

    athens: MemberEndpoint
    berlin: MemberEndpoint
    address: AgentAddress
    taken: list[Envelope] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        return self.athens.counts

    async def still_hears_berlin(self) -> None:
        before = len(self.taken)
        self.berlin.send("athens", "message", "any", "good")
        await until(lambda: len(self.taken) > before)

    async def dial(self, context: ssl.SSLContext | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.address.host, self.address.port, ssl=context)


@contextlib.asynccontextmanager
async def scene(members: Members, certificates: CertificateFolder) -> AsyncIterator[Scene]:
    taken: list[Envelope] = []
    athens = MemberEndpoint("athens", members, certificates, 0, lambda _, envelope: taken.append(envelope))
    berlin = MemberEndpoint("berlin", members, certificates, 0, lambda _, envelope: None, back_off=EAGER)
    async with athens.open() as address, berlin.open():
        yield Scene(athens, berlin, address, taken)


async def refused(at: Scene, context: ssl.SSLContext | None, first: bytes = b"") -> None:
    """Dials, sends something, and sees the connection end."""
    with contextlib.suppress(OSError):
        reader, writer = await at.dial(context)
        try:
            if first:
                writer.write(first)
                await writer.drain()
            await reader.read()
        finally:
            writer.transport.abort()


def greeting(members: Members, incarnation: int = 0) -> bytes:
    return framed(encode_greeting(Greeting(WIRE_VERSION, members.digest, incarnation)))


def without_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def careless(context: ssl.SSLContext) -> ssl.SSLContext:
    """Shows its own certificate and takes any."""
    context.verify_mode = ssl.CERT_NONE
    return context


def strangers(
    members: Members,
    certificates: CertificateFolder,
    wanted: str,
    make: Callable[[Scene], tuple[ssl.SSLContext | None, bytes]],
) -> Counter[str]:
    async def play() -> Counter[str]:
        async with scene(members, certificates) as at:
            await at.still_hears_berlin()
            context, first = make(at)
            await refused(at, context, first)
            await until(lambda: wanted in at.counts)
            await at.still_hears_berlin()
            return at.counts

    return asyncio.run(play())


def test_without_a_certificate_nobody_gets_in(members: Members, certificates: CertificateFolder) -> None:
    strangers(
        members,
        certificates,
        "refused: no certificate",
        lambda _: (without_certificate(), greeting(members)),
    )


def test_the_certificate_of_another_project_is_refused(
    members: Members, certificates: CertificateFolder, foreign_certificates: CertificateFolder
) -> None:
    context = careless(tls_context(foreign_certificates, "berlin", serving=False))
    wanted = "refused: certificate of another authority"
    strangers(members, certificates, wanted, lambda _: (context, greeting(members)))


def test_an_expired_certificate_is_refused(
    members: Members, certificates: CertificateFolder, tmp_path: Path
) -> None:
    """Under the project's own authority, and for a member."""
    expired = CertificateFolder(tmp_path / "expired")
    shutil.copytree(certificates.folder, expired.folder)
    asked = (
        *("openssl", "x509", "-x509toreq", "-in", certificates.certificate("berlin")),
        *("-signkey", certificates.key("berlin"), "-copy_extensions", "copyall"),
    )
    signed = (
        *("openssl", "x509", "-req", "-days", "-1", "-set_serial", "1", "-copy_extensions", "copyall"),
        *("-CA", certificates.authority, "-CAkey", certificates.authority_key),
    )
    request = subprocess.run(asked, capture_output=True, check=True).stdout
    made = subprocess.run(signed, input=request, capture_output=True, check=True).stdout
    expired.certificate("berlin").write_bytes(made)
    context = tls_context(expired, "berlin", serving=False)
    strangers(members, certificates, "refused: expired certificate", lambda _: (context, greeting(members)))


def test_a_certificate_of_the_project_for_no_member_is_refused(
    members: Members, certificates: CertificateFolder
) -> None:
    context = tls_context(certificates, "stranger", serving=False)
    strangers(members, certificates, "refused: unknown member", lambda _: (context, greeting(members)))


def test_plain_tcp_is_refused(members: Members, certificates: CertificateFolder) -> None:
    wanted = "refused: no TLS as agents use it"
    strangers(members, certificates, wanted, lambda _: (None, b"GET / HTTP/1.1\r\n\r\n" * 100))


def test_a_member_with_other_sites_is_told_apart(members: Members, certificates: CertificateFolder) -> None:
    others = Members(members.folder, members.sites[::-1])
    context = tls_context(certificates, "cairo", serving=False)
    strangers(members, certificates, "refused: other sites", lambda _: (context, greeting(others)))


def test_a_gigabyte_from_a_member_is_cut_off_by_its_announcement(
    members: Members, certificates: CertificateFolder
) -> None:
    context = tls_context(certificates, "cairo", serving=False)
    first = greeting(members) + (1 << 30).to_bytes(4, "big") + b"x" * 1_000_000
    strangers(members, certificates, "cut off: oversized", lambda _: (context, first))


def test_what_nobody_understands_is_dropped_and_the_next_message_taken(
    members: Members, certificates: CertificateFolder
) -> None:
    async def play() -> None:
        async with scene(members, certificates) as at:
            reader, writer = await at.dial(tls_context(certificates, "cairo", serving=False))
            writer.write(
                greeting(members) + framed(b"\xc1garbage") + framed(b"") + framed(b"\x93\x01\x02\x03")
            )
            writer.write(framed(encode_envelope(0, "message", "any", "sense")))
            await until(lambda: len(at.taken) == 1)
            assert at.counts["dropped: malformed"] == 3
            await read_frame(reader)
            writer.transport.abort()

    asyncio.run(play())


def test_what_was_sent_before_is_recognised_on_a_new_connection(
    members: Members, certificates: CertificateFolder
) -> None:
    async def play() -> None:
        async with scene(members, certificates) as at:
            frames = framed(encode_envelope(4, "message", "any", "x"))
            context = tls_context(certificates, "cairo", serving=False)

            async def send(incarnation: int, taken: int, dropped: int) -> None:
                _, writer = await at.dial(context)
                writer.write(greeting(members, incarnation) + frames + frames)
                await until(lambda: (len(at.taken), at.counts["dropped: seen before"]) == (taken, dropped))
                writer.transport.abort()

            await send(incarnation=3, taken=1, dropped=1)
            await send(incarnation=3, taken=1, dropped=3)
            await refused(at, context, greeting(members, incarnation=2))
            await until(lambda: at.counts["refused: an older incarnation"] == 1)
            await send(incarnation=4, taken=2, dropped=4)

    asyncio.run(play())


def test_a_crowd_that_says_nothing_keeps_no_member_out(
    members: Members, certificates: CertificateFolder
) -> None:
    """Berlin dials while the crowd waits: it gets in once those time out, and the crowd is bounded."""

    async def play() -> None:
        async with scene(members, certificates) as at:
            await at.still_hears_berlin()
            crowd = [await at.dial(None) for _ in range(40)]
            await until(lambda: at.counts["refused: too many at once"] >= 8)
            await at.still_hears_berlin()
            for _, writer in crowd:
                writer.transport.abort()

    asyncio.run(play())


def test_what_cannot_be_sent_is_counted_and_never_waited_for(
    members: Members, certificates: CertificateFolder
) -> None:
    async def play() -> Counter[str]:
        athens = MemberEndpoint("athens", members, certificates, 0, lambda _, envelope: None)
        for number in range(300):
            athens.send("delhi", "message", "any", number)
        athens.send("delhi", "message", "any", "x" * 300_000)
        return athens.counts

    assert asyncio.run(play()) == {"dropped: outbox full": 44, "dropped: too large to send": 1}
