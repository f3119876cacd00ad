"""The token of a site, from where its connection says: the address, the environment, or a file."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from mooring.errors import InputError
from mooring.model.problem.site import Connection

EVERYWHERE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""As every client of Spark, a site without a token of its own is sent this variable's."""
_MOST_BYTES = 65536
_TOKEN = re.compile(r"[!-~]+")
_OPEN_TO_OTHERS = stat.S_IRWXO | stat.S_IWGRP


def read_token(connection: Connection, environment: Mapping[str, str] | None = None) -> str | None:
    """Read anew each time, so that a token that was replaced is used from the next session on."""
    environment = os.environ if environment is None else environment
    if connection.token_env is not None or connection.token_file is not None:
        return secret_of(connection.token_env, connection.token_file, "connect", environment)
    if connection.address.token is not None:
        return connection.address.token
    if not environment.get(EVERYWHERE, ""):
        return None
    return _checked(
        environment[EVERYWHERE], f"the environment variable {EVERYWHERE}", f"connect.{EVERYWHERE}"
    )


def secret_of(
    token_env: str | None, token_file: str | None, path: str, environment: Mapping[str, str] | None = None
) -> str:
    """The token that one of the two names. `path`: the key of the site that holds them."""
    environment = os.environ if environment is None else environment
    if token_env is not None:
        found = f"the environment variable {token_env}"
        return _checked(environment.get(token_env, ""), found, f"{path}.token_env")
    assert token_file is not None
    return _checked(_content(Path(token_file), path), token_file, f"{path}.token_file")


def _checked(said: str, found: str, field: str) -> str:
    token = said.strip()
    if not _TOKEN.fullmatch(token):
        what = "is empty or not set" if not token else "holds more than one line or word"
        raise InputError(f"{found} {what}, expected a token", field=field)
    return token


def _content(file: Path, path: str) -> str:
    """Of a file that only its owner, and at most a group, can read, and only its owner can change."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as failure:
        raise _refused(file, path, f"cannot be read: {failure.strerror}", "check that it exists") from None
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > _MOST_BYTES:
            raise _refused(file, path, "is not a file of a token's size", "store only the token in it")
        if seen.st_mode & _OPEN_TO_OTHERS or seen.st_uid not in (0, os.geteuid()):
            raise _refused(
                file, path, "is readable or writable by other users", "own it and run `chmod 600` on it"
            )
        return os.read(handle, _MOST_BYTES).decode("utf-8", errors="replace")
    finally:
        os.close(handle)


def _refused(file: Path, path: str, what: str, remedy: str) -> InputError:
    return InputError(f"the token's file {file} {what}", field=f"{path}.token_file", remedy=remedy)
