"""TLS with a certificate and key that were given, looked at as a client would before anything listens."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from mooring.errors import InputError

OPTION = "--tls"
_OF_ANOTHER = ("KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""What OpenSSL says of a key that does not fit, of the same kind and of another."""
_FLIGHTS = 4
"""Turns of two ends that shake hands in memory; TLS 1.3 needs two."""


@dataclass(frozen=True)
class TlsFiles:
    certificate: Path
    """PEM, with those of the authorities in between behind it."""
    key: Path
    """PEM, without a passphrase."""


@dataclass(frozen=True)
class Tls:
    context: ssl.SSLContext
    names: tuple[str, ...]
    """That the certificate is for, in small letters."""


def load_tls(files: TlsFiles) -> Tls:
    """Ready to serve with; `InputError` says which file is wrong, and how."""
    _read(files.key)
    _check_certificate(files.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.certificate, files.key, lambda: _refuse_passphrase(files.key))
    except ssl.SSLError as wrong:
        if wrong.reason in _OF_ANOTHER:
            raise InputError(
                f"found the key of another certificate than {files.certificate}",
                file=files.key,
                field=OPTION,
                remedy="give the key of the certificate",
            ) from wrong
        raise InputError(
            "found no private key, expected one in PEM (-----BEGIN PRIVATE KEY-----)",
            file=files.key,
            field=OPTION,
            remedy="give the certificate first and its key second",
        ) from wrong
    return Tls(context, _names_shown(context, files.certificate))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as failure:
        raise InputError(
            f"cannot be read: {failure.strerror or failure}",
            file=path,
            field=OPTION,
            remedy="give a file that the user of the service can read",
        ) from failure


def _check_certificate(path: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=_read(path))
    except (ssl.SSLError, ValueError) as wrong:
        raise InputError(
            "found no certificate, expected one in PEM (-----BEGIN CERTIFICATE-----)",
            file=path,
            field=OPTION,
            remedy="give the certificate first and its key second",
        ) from wrong


def _refuse_passphrase(key: Path) -> str:
    """Otherwise OpenSSL asks the terminal for one, which a service may not have."""
    raise InputError(
        "found a key with a passphrase, expected one without",
        file=key,
        field=OPTION,
        remedy="`openssl pkey -in KEY -out OPEN_KEY` writes it without; keep that readable by its user alone",
    )


def _names_shown(context: ssl.SSLContext, certificate: Path) -> tuple[str, ...]:
    """The names of the certificate, by a handshake in memory with a client that trusts exactly this one: what
    it would refuse (expired, not valid yet, not for a server) is refused here.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server)
    answering = context.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(_FLIGHTS):
            for end in (asking, answering):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLError as wrong:
        why = getattr(wrong, "verify_message", "") or wrong.reason or str(wrong)
        raise InputError(
            f"found a certificate that clients refuse: {why}",
            file=certificate,
            field=OPTION,
            remedy="give one that is valid now, for a server",
        ) from wrong
    shown = asking.getpeercert() or {}
    return tuple(str(each[1]).lower() for each in shown.get("subjectAltName", ()))
