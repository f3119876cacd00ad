"""Names of several parts in a session whose datasets are temporary views, which have one part; and `${name}`.

Every way to name a table in a definition (`spark.table`, `readStream.table`, `spark.sql`) ends in a message
to the site. There, and only there, the name of a dataset is replaced by that of its view.

A dataset that is read both as a stream and as a table has two views; the kind of read selects one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from google.protobuf.message import Message
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from mooring.spark.definitions.names import parts_of, quoted
from mooring.spark.definitions.plan_messages import messages_in
from mooring.spark.definitions.sql_names import with_tables_at_rest, with_view_names
from mooring.spark.definitions.sql_variables import substituted

KeyOf = Callable[[str], str | None]
"""The dataset that a name stands for; None where it is no dataset of the pipeline."""


def use_names(session: SparkSession, key_of: KeyOf, variables: Mapping[str, str]) -> None:
    """From now on every name that `key_of` knows means that dataset's view in this session. `variables` are
    replaced in SQL before Spark does it, so that a table may be called `${db}.x`.
    """
    client: Any = session.client
    renaming = _Renaming(key_of, variables)
    client._session_hooks[:] = [renaming]
    analyse = type(client)._analyze

    def renamed_analyse(method: str, **sent: Any) -> Any:
        return analyse(client, method, **{what: renaming.of(value) for what, value in sent.items()})

    client._analyze = renamed_analyse


def view_at_rest(dataset: str) -> str:
    """The view of a dataset as it stands, where its own name means it as a stream."""
    return f"{dataset}__at_rest"


def read_both_ways(session: SparkSession, datasets: Set[str]) -> None:
    """From now on what is read of these, and no others, without being streamed is the dataset at rest."""
    client: Any = session.client
    for hook in client._session_hooks:
        if isinstance(hook, _Renaming):
            hook.both_ways = frozenset(datasets)


class _Renaming(ConnectSession.Hook):
    def __init__(self, key_of: KeyOf, variables: Mapping[str, str]) -> None:
        self._key_of = key_of
        self._variables = variables
        self.both_ways = frozenset[str]()

    def on_execute_plan(self, request: Any) -> Any:
        return self.of(request)

    def of(self, sent: Any) -> Any:
        """The same message with the views' names."""
        if not isinstance(sent, Message):
            return sent
        copy = type(sent)()
        copy.CopyFrom(sent)
        for message in list(messages_in(copy)):
            found: Any = message
            kind = message.DESCRIPTOR.name
            if kind == "Relation" and found.WhichOneof("rel_type") == "read":
                self._rename_read(found)
            elif kind == "SQL":
                query = with_view_names(substituted(found.query, self._variables), self._key_of)
                found.query = with_tables_at_rest(query, self._at_rest) if self.both_ways else query
            elif kind == "CreateDataFrameViewCommand" and "." in found.name and "`" not in found.name:
                found.name = quoted(found.name)
        return copy

    def _at_rest(self, written: str) -> str | None:
        key = self._key_of(written)
        return view_at_rest(key) if key in self.both_ways and key is not None else None

    def _rename_read(self, relation: Any) -> None:
        """A read of the view under the name it was asked for by, so that columns can be qualified with it."""
        written = relation.read.named_table.unparsed_identifier
        *qualifier, last = parts_of(written)
        view = None if relation.read.is_streaming else self._at_rest(written)
        if view is None and qualifier:
            view = self._key_of(written)
        if view is None:
            return
        read, common = type(relation)(), type(relation.common)()
        read.read.CopyFrom(relation.read)
        read.read.named_table.unparsed_identifier = quoted(view)
        common.CopyFrom(relation.common)
        relation.Clear()
        relation.common.CopyFrom(common)
        relation.subquery_alias.input.CopyFrom(read)
        relation.subquery_alias.alias = last
        relation.subquery_alias.qualifier.extend(qualifier)
