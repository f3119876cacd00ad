"""A protocol as an agent hosts it: how its machine is made, and the types that may come over the wire.

Every message is one of a tagged union of frozen structs. What is decoded is checked field by field against
the types, and then against what its sender can say (`protocols/claims.py`): a machine sees messages only that
an honest member could have sent, as far as that can be told without knowing the machine's state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mooring.protocols.claims import Claims, plain_claims
from mooring.protocols.protocol import Data, MakeMachine
from mooring.runtime.transport.frames import FrameError
from mooring.runtime.transport.members import Members
from mooring.runtime.transport.wire import Envelope, Kind, StrictDecoder


@dataclass(frozen=True)
class HostedProtocol:
    name: str
    make: MakeMachine
    messages: Any
    """Union of what machines, and the runner as one of them, send each other."""
    durable: Any
    """Type of what they persist."""
    requests: Any = None
    """Union of what the runner may ask of a machine (`Asked`); None: nothing."""
    claims: Claims = plain_claims
    """Why a message or an output of a member cannot be; None if it can."""
    outputs: Any = None
    """Union of what a machine puts out for the runner (`Output`); None: nothing."""
    keep: Callable[[Members, str, Data], None] | None = None
    """What is done with an output where it was put out, besides sending it to the runner, and once more
    where the runner is; takes the members, who keeps it, and the output."""

    def __post_init__(self) -> None:
        _ = self._decoders  # types that cannot be told apart are found when an agent starts, not by a message

    @cached_property
    def _decoders(self) -> dict[Kind, StrictDecoder]:
        kinds: dict[Kind, Any] = {
            "message": self.messages,
            "request": self.requests,
            "output": self.outputs,
        }
        return {kind: StrictDecoder(types) for kind, types in kinds.items() if types is not None}

    def judged(self, envelope: Envelope, sender: int, receiver: int, sites: int) -> Data:
        """What one member sent another, the runner being the one after the last site."""
        content = self.decode(envelope)
        if why := self.claims(sender, receiver, sites, content):
            raise FrameError("untrue", f"{type(content).__name__}: {why}")
        return content

    def decode(self, envelope: Envelope) -> Data:
        decoder = self._decoders.get(envelope.kind)
        if decoder is None:
            raise FrameError("unknown", f"{self.name} takes no {envelope.kind}")
        content: Data = decoder(envelope.content)
        return content
