"""A protocol as an agent hosts it: how its machine is made, and the types that may come over the wire.

Every message is one of a tagged union of frozen structs. What is decoded is checked field by field against
the types, and then against what its sender can say (`coordination/claims.py`): a machine sees messages only
that an honest member could have sent, as far as that can be told without knowing the machine's state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from mooring.contracts.site_machine import Claims, MakeMachine

Kind = Literal["message", "request", "output"]
"""Between machines, the runner being one of them; from the runner to a site's machine (`Asked`); from one to
the runner (`Output`)."""


@dataclass(frozen=True)
class HostedProtocol:
    name: str
    make: MakeMachine
    messages: Any
    """Union of what machines, and the runner as one of them, send each other."""
    durable: Any
    """Type of what they persist."""
    requests: Any = None
    """Union of the requests that the runner may send to a machine (`Asked`); None: none."""
    claims: Claims | None = None
    """The reason why a message or an output of a member is impossible; None: the checks of every protocol
    suffice."""
    outputs: Any = None
    """Union of what a machine puts out for the runner (`Output`); None: nothing."""

    def __post_init__(self) -> None:
        _ = self.decoders  # types that cannot be told apart are found when an agent starts, not by a message

    @cached_property
    def decoders(self) -> dict[Kind, msgspec.msgpack.Decoder[Any]]:
        kinds: dict[Kind, Any] = {
            "message": self.messages,
            "request": self.requests,
            "output": self.outputs,
        }
        strict = msgspec.msgpack.Decoder
        return {kind: strict(types, strict=True) for kind, types in kinds.items() if types is not None}
