"""An operator: a step that reads streams or operators and has a cost and a selectivity."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from mooring.model.problem.goals import Need

Kind = Literal["map", "filter", "union", "aggregate", "join", "split"]
KINDS: tuple[Kind, ...] = ("map", "filter", "union", "aggregate", "join", "split")


MovesAs = Literal["stateless", "stateful", "join", "view"]


class InputStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What one input costs and yields where it differs from the operator's own figures."""

    cost_us: float | None = None
    selectivity: float | None = None


class PairStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Of an operator that an engine carries out as a join, as a run measures it."""

    per_product_s: float
    """Output tuples per second, over the product of the rates of its first input and of all others; takes the
    place of the selectivity."""
    cost_us: float
    """CPU microseconds per output tuple, beside what input tuples cost."""


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """One placeable step. An operator split by key appears once per instance, each with its `share`."""

    name: str
    inputs: tuple[str, ...] = ()
    """Streams or operators, by the names used in the problem file (all instances of a split operator)."""
    kind: Kind = "map"
    cost_us: float = 0.0
    """CPU microseconds per input tuple; per pair for a join."""
    selectivity: float = 1.0
    """Output tuples per input tuple; per pair for a join."""
    variability: float = 0.0
    """Squared coefficient of variation of the time that a tuple takes: 0 constant, 1 exponential."""
    per_input: dict[str, InputStatistics] | None = None
    pairs: PairStatistics | None = None
    """None: all of it grows with the rates of its inputs. No problem file states it."""
    window_s: float | None = None
    """Joins: a tuple meets the other side's within half of this before or after. Aggregates: the window."""
    variable: bool = False
    """The selectivity is not constant: its output becomes a variable when linearising (section 6.2)."""
    site: str | None = None
    """Pinned here."""
    load: dict[str, float] | None = None
    """Load coefficients given directly: cores per tuple per second of each stream."""
    bytes: float | None = None
    """Bytes per output tuple; None: as its widest input."""
    memory_mb: float = 0.0
    state_bytes: float = 0.0
    movable: bool = True
    """False: may be placed anywhere at first, but never moved once it runs."""
    moves_as: MovesAs | None = None
    """By the pauses of which kind its moves are predicted; None: by whether it remembers tuples."""
    fragment: str | None = None
    """Operators with the same label always run together."""
    fixed_cores: float = 0.0
    """Load at rate zero, such as Spark's cost per micro-batch; counted once per fragment."""
    parallel: float = 1.0
    """Cores that its fragment can use at a time, such as one per partition; counted once per fragment."""
    reuse: str | bool | None = None
    """A signature; False forbids sharing; None: derived from kind, parameters and inputs."""
    needs: dict[str, Need] | None = None
    """What it takes of named resources; of a split operator, every instance by itself."""
    error: float = 0.0
    """Relative error of cost and selectivity."""
    part_of: str | None = None
    """The operator in the problem file that this is an instance of; None: it is that operator."""
    share: float = 1.0
    """The part of the input that this instance gets."""

    @property
    def logical_name(self) -> str:
        return self.name if self.part_of is None else self.part_of

    @property
    def stateful(self) -> bool:
        """Whether it remembers tuples, by its kind or by what it states."""
        return self.state_bytes > 0 or self.kind in ("aggregate", "join")

    @property
    def moved_as(self) -> MovesAs:
        """The kind of which its move is."""
        return self.moves_as or (
            "join" if self.kind == "join" else "stateful" if self.stateful else "stateless"
        )

    def cost_us_of(self, source: str) -> float:
        override = None if self.per_input is None else self.per_input.get(source)
        return self.cost_us if override is None or override.cost_us is None else override.cost_us

    def selectivity_of(self, source: str) -> float:
        override = None if self.per_input is None else self.per_input.get(source)
        return self.selectivity if override is None or override.selectivity is None else override.selectivity


def split_by_key(whole: Operator, shares: tuple[float, ...]) -> list[Operator]:
    """The instances of an operator whose input is partitioned by key (sections 7.3.1 and 7.3.5).

    Memory and state divide with the input; the fixed cost does not, since every instance runs its own
    micro-batches. A fragment label is numbered likewise: the k-th instances of its operators run together.
    """
    if not math.isclose(sum(shares), 1.0, rel_tol=1e-9, abs_tol=1e-9):
        raise ValueError(f"found shares that add up to {sum(shares):g}, expected 1")
    return [
        msgspec.structs.replace(
            whole,
            name=f"{whole.name}#{number}",
            part_of=whole.name,
            share=share,
            memory_mb=whole.memory_mb * share,
            state_bytes=whole.state_bytes * share,
            fragment=None if whole.fragment is None else f"{whole.fragment}#{number}",
        )
        for number, share in enumerate(shares, start=1)
    ]
