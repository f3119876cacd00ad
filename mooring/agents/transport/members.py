"""The members of a project: the sites by name and number, the runner, and their addresses.

An agent on this machine says where it listens in a file of the project's work folder; for those elsewhere
`mooring.yml` says it (`agent: host:port` of a site).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from mooring.agents.transport.wire import members_digest
from mooring.atomic_files import write_whole
from mooring.errors import InputError

RUNNER = "runner"
"""The name of the process that runs the pipeline, as its certificate has it. No site may be called so."""


@dataclass(frozen=True)
class AgentAddress:
    host: str
    port: int

    @staticmethod
    def read(text: str, field: str) -> AgentAddress:
        """
        >>> AgentAddress.read("10.0.0.2:7601", "agent")
        AgentAddress(host='10.0.0.2', port=7601)
        >>> str(AgentAddress.read("[::1]:0", "agent"))
        '[::1]:0'
        """
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isdecimal() or int(port) > 65535:
            raise InputError(f"found {text!r}, expected HOST:PORT", field=field)
        return AgentAddress(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Members:
    folder: Path
    """`.mooring/agents` of the project."""
    sites: tuple[str, ...]
    """In the order of `mooring.yml`; a machine knows a site by its place here."""
    stated: Mapping[str, AgentAddress] = field(default_factory=dict)
    """Where `mooring.yml` says that a site's agent, or the runner, listens."""

    def __post_init__(self) -> None:
        if RUNNER in self.sites:
            raise InputError(
                f"found a site named {RUNNER!r}, which is reserved for the process that runs the pipeline",
                field="sites",
                remedy="give it another name",
            )

    @property
    def digest(self) -> str:
        return members_digest(self.sites)

    @property
    def names(self) -> tuple[str, ...]:
        """Sites and the runner."""
        return (*self.sites, RUNNER)

    def number(self, site: str) -> int:
        return self.sites.index(site)

    def own_folder(self, name: str) -> Path:
        return self.folder / quote(name, safe="")

    def announce(self, name: str, address: AgentAddress) -> None:
        self.own_folder(name).mkdir(parents=True, exist_ok=True)
        write_whole(self.own_folder(name) / "address", str(address))

    def withdraw(self, name: str) -> None:
        (self.own_folder(name) / "address").unlink(missing_ok=True)

    def find(self, name: str) -> AgentAddress | None:
        """Where a member listens, as far as is known now: an agent that starts anew may listen elsewhere."""
        if name in self.stated:
            return self.stated[name]
        with contextlib.suppress(OSError, UnicodeDecodeError, InputError):
            return AgentAddress.read((self.own_folder(name) / "address").read_text(), "address")
        return None
