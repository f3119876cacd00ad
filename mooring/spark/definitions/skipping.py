"""What `skip` in `mooring.yml` leaves out of a pipeline: datasets, flows, or whole definition files."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.errors import Gathered, InputError
from mooring.spark.definitions.names import PipelineNames


class Skipping:
    """Asked for every definition; knows in the end which of the names nothing had."""

    def __init__(self, names: PipelineNames, skip: Sequence[str]) -> None:
        self._key = names.key
        self._skip = {name: names.key(name).casefold() for name in skip}
        self._met: set[str] = set()
        self.unfed: set[str] = set()
        """Tables into which a flow would go that is left out."""

    def wants(self, written: str) -> bool:
        """Whether the dataset or file of this name is to be left out."""
        wanted = {name for name, key in self._skip.items() if self._key(written).casefold() == key}
        self._met |= wanted
        return bool(wanted)

    def wants_flow(self, flow: str, target: str) -> bool:
        if not self.wants(flow):
            return False
        self.unfed.add(self._key(target))
        return True

    def refuse_unknown(self) -> None:
        gather = Gathered()
        for name in self._skip.keys() - self._met:
            gather.note(
                InputError(
                    f"found {name!r}, expected a dataset, a flow or a definition file of the pipeline",
                    file="mooring.yml",
                    field="skip",
                )
            )
        gather.raise_any()
