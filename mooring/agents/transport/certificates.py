"""A project's certificates: one authority, and one certificate for every site and for the runner.

A peer is identified by its certificate: a URI with its name, under the project's own authority. Nothing else
counts, neither address nor host name. The keys are made by the `openssl` command, where certificates are made
and nowhere else; agents need Python's `ssl` alone.

A key is readable by its owner only, from the moment the file exists.
"""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

from mooring.atomic_files import read_private, write_whole
from mooring.errors import EngineError, InputError

AUTHORITY_DAYS = 3650
MEMBER_DAYS = 825
WARNED_DAYS = 30
"""Before a certificate ends it is told of for so long."""
_DAY_S = 86_400.0
_IDENTITY = "mooring:member/"
_KEY_MODE = 0o600
_VERSION, _UTC_TIME, _LONG = 0xA0, 0x17, 0x80
"""Of DER: the tags of a version and of a time with two digits for the year, and the mark of a long length."""


@dataclass(frozen=True)
class CertificateFolder:
    """`authority.crt` and, for each member, `NAME.crt` and `NAME.key`. A site needs its own three files;
    `authority.key` stays where certificates are made."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "authority.crt"

    @property
    def authority_key(self) -> Path:
        return self.folder / "authority.key"

    def certificate(self, name: str) -> Path:
        return self.folder / f"member-{quote(name, safe='')}.crt"

    def key(self, name: str) -> Path:
        return self.folder / f"member-{quote(name, safe='')}.key"

    def ending(self, names: Sequence[str], now_s: float) -> list[str]:
        """Certificates that are here and end soon, or have ended, with what to do; `now_s` since 1970."""
        files = {"the authority": self.authority, **{name: self.certificate(name) for name in names}}
        found = []
        for what, file in files.items():
            try:
                left_days = (ends_s(file.read_bytes()) - now_s) / _DAY_S
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as damage:
                found.append(f"the certificate of {what} cannot be read: {file}: {damage}")
                continue
            if left_days >= WARNED_DAYS:
                continue
            when = f"ends in {left_days:.0f} days" if left_days >= 0 else f"ended {-left_days:.0f} days ago"
            gone = self.folder if file == self.authority else f"{file} and its key"
            found.append(
                f"the certificate of {what} {when}, and agents refuse expired ones: remove {gone}, run "
                "`mooring agent PROJECT --make-certificates` on the machine with authority.key, and copy "
                "the new files to the site"
            )
        return found

    def missing(self, names: Sequence[str]) -> list[str]:
        """Members without a certificate here."""
        return [n for n in names if not (self.certificate(n).is_file() and self.key(n).is_file())]


def make_certificates(folder: CertificateFolder, names: Sequence[str], days: int = MEMBER_DAYS) -> list[str]:
    """Those that are missing, the authority first if there is none; returns whose were made."""
    made = folder.missing(names)
    if not made and folder.authority.is_file():
        return []
    if made and folder.authority.is_file() and not folder.authority_key.is_file():
        raise InputError(
            "found authority.crt without authority.key, which the missing certificates need",
            file=folder.folder,
            remedy=(
                "make them on the machine with authority.key, or remove the folder to start a new authority"
            ),
        )
    folder.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.authority_key.is_file():
        _check_key(folder.authority_key)
    with tempfile.TemporaryDirectory(dir=folder.folder, prefix=".making-") as made_in:
        scratch = Path(made_in)
        if not folder.authority.is_file():
            _make_authority(folder, scratch)
        for name in made:
            _make_member(folder, name, days, scratch)
    return made


def _make_authority(folder: CertificateFolder, scratch: Path) -> None:
    extensions = {
        "basicConstraints": "critical,CA:true,pathlen:0",
        "keyUsage": "critical,keyCertSign,cRLSign",
        "subjectKeyIdentifier": "hash",
    }
    key, certificate = _make(scratch, "Mooring project", extensions, AUTHORITY_DAYS)
    write_whole(folder.authority_key, key, on_disk=True, mode=_KEY_MODE)
    write_whole(folder.authority, certificate, on_disk=True)


def _make_member(folder: CertificateFolder, name: str, days: int, scratch: Path) -> None:
    extensions = {
        "basicConstraints": "critical,CA:false",
        "keyUsage": "critical,digitalSignature",
        "extendedKeyUsage": "serverAuth,clientAuth",
        "subjectKeyIdentifier": "hash",
        "authorityKeyIdentifier": "keyid",
        "subjectAltName": f"URI:{_IDENTITY}{quote(name, safe='')}",
    }
    by_authority = ("-CA", str(folder.authority), "-CAkey", str(folder.authority_key))
    key, certificate = _make(scratch, "Mooring agent", extensions, days, *by_authority)
    write_whole(folder.key(name), key, on_disk=True, mode=_KEY_MODE)
    write_whole(folder.certificate(name), certificate, on_disk=True)


def _make(
    scratch: Path, subject: str, extensions: Mapping[str, str], days: int, *signing: str
) -> tuple[bytes, bytes]:
    """A new key and its certificate, by way of a folder that only its owner may enter."""
    lines = ["[req]", "distinguished_name=subject", "prompt=no", "x509_extensions=extensions"]
    lines += ["[subject]", f"CN={subject}", "[extensions]"]
    lines += [f"{key}={value}" for key, value in extensions.items()]
    asked, key = scratch / "request.cnf", scratch / "made.key"
    asked.write_text("\n".join(lines) + "\n")
    certificate = _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-sha256"),
        *("-keyout", str(key), "-config", str(asked), "-days", str(days), *signing),
    )
    return key.read_bytes(), certificate


def _check_key(key: Path) -> None:
    """One that others have read is nobody's any more, as after a clone of a repository."""
    try:
        secret = read_private(key, placed=True)
    except OSError as failure:
        raise InputError(f"cannot be read: {failure.strerror}", file=key) from None
    if secret is None:
        raise InputError(
            "is a key that other users can read or change, or not a regular file of this user",
            file=key,
            remedy=(
                "if no other user has read it, own it and run `chmod 600` on it; else remove it with "
                "its certificate and make both again (a new authority for authority.key)"
            ),
        )


def _openssl(*words: str) -> bytes:
    command = shutil.which("openssl")
    if command is None:
        raise InputError(
            "found no `openssl` command, which makes certificates",
            remedy="install it here, or make the certificates on another machine and copy the folder",
        )
    done = subprocess.run([command, *words], capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise EngineError(
            f"openssl {words[0]} failed: {said[-1] if said else done.returncode}",
            remedy="OpenSSL 3.0 or newer is needed",
        )
    return done.stdout


def ends_s(certificate: bytes) -> float:
    """When a certificate ends, in seconds since 1970. `ValueError` if it is none.

    Of its DER form only what lies before that is read: version, number, algorithm and issuer.
    """
    try:
        der = ssl.PEM_cert_to_DER_cert(certificate.decode("ascii"))
        _, signed, _ = _der(der, 0)
        _, at, _ = _der(der, signed)
        if der[at] == _VERSION:
            at = _der(der, at)[2]
        for _ in range(3):
            at = _der(der, at)[2]
        _, begins, _ = _der(der, at)
        kind, start, end = _der(der, _der(der, begins)[2])
        form = "%y%m%d%H%M%SZ" if kind == _UTC_TIME else "%Y%m%d%H%M%SZ"
        return datetime.strptime(der[start:end].decode("ascii"), form).replace(tzinfo=UTC).timestamp()
    except (IndexError, UnicodeDecodeError) as damage:
        raise ValueError(f"no certificate: {damage}") from None


def _der(der: bytes, at: int) -> tuple[int, int, int]:
    """The tag of an element, where its content begins, and where it ends."""
    length, begin = der[at + 1], at + 2
    if length >= _LONG:
        count = length - _LONG
        length, begin = int.from_bytes(der[begin : begin + count], "big"), begin + count
    return der[at], begin, begin + length


def tls_context(folder: CertificateFolder, name: str, *, serving: bool) -> ssl.SSLContext:
    """TLS 1.3 in which both ends show a certificate of the project's authority, and nothing else is taken."""
    for needed in (folder.authority, folder.certificate(name), folder.key(name)):
        if not needed.is_file():
            raise InputError(
                "no such file",
                file=needed,
                remedy=(
                    "make them with `mooring agent PROJECT --make-certificates`; copy a site's three "
                    "files to it"
                ),
            )
    _check_key(folder.key(name))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if serving else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate's own name counts (`peer_name`)
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(cafile=folder.authority)
        context.load_cert_chain(folder.certificate(name), folder.key(name))
    except ssl.SSLError as error:
        reason = getattr(error, "reason", None) or "unreadable"
        raise InputError(f"cannot be used ({reason})", file=folder.certificate(name)) from None
    return context


def peer_name(certificate: Mapping[str, object] | None) -> str | None:
    """The member that a verified certificate names; None where it names none.

    >>> peer_name({"subjectAltName": (("URI", "mooring:member/new%20york"),)})
    'new york'
    """
    found = (certificate or {}).get("subjectAltName", ())
    assert isinstance(found, tuple)
    named = [value for kind, value in found if kind == "URI" and value.startswith(_IDENTITY)]
    return unquote(named[0].removeprefix(_IDENTITY)) if len(named) == 1 else None
