"""SQL definition files: statements that create datasets and flows, with the line each starts on.

Spark parses these only when it runs a whole pipeline, so the few statement forms are recognised here by their
first words; the query inside stays as written, for Spark to read. Tables a query reads are found with
sqlglot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from mooring.errors import Gathered, InputError, UnsupportedError
from mooring.spark.definitions.sql_table_clauses import read_clauses
from mooring.spark.definitions.sql_variables import substituted
from mooring.spark.definitions.table_arguments import NOTHING_SAID, TableArguments

StatementKind = Literal["table", "view", "flow", "materialized view", "auto cdc", "expectations"]

_OPTIONAL = {"OR", "REFRESH", "REPLACE", "TEMP", "TEMPORARY", "IF", "NOT", "EXISTS", "LIVE", "PRIVATE"}
_QUERY_STARTS = {TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES, TokenType.L_PAREN}
_STREAM_MARK = "mooring_stream_"
_WINDOW_MARK = "mooring_window"


@dataclass(frozen=True)
class SqlStatement:
    kind: StatementKind
    name: str
    target: str
    """The dataset it writes into: its own name, except for flows."""
    query: str | None
    line: int
    arguments: TableArguments = NOTHING_SAID
    database: str = ""
    """What USE said before it in the file, perhaps with a catalog."""
    settings: dict[str, str] = field(default_factory=dict)
    """Spark's own, of what SET said before it in the file; the others are variables, and replaced."""


@dataclass(frozen=True)
class TableRead:
    """A table that a query names, and whether it reads it as a stream."""

    name: str
    streaming: bool


def parse_statements(
    text: str, file: str, variables: Mapping[str, str] | None = None, gather: Gathered | None = None
) -> list[SqlStatement]:
    """The statements of one file; anything that defines no dataset or flow is refused with its line, or noted
    in `gather`.

    `${name}` is replaced from `variables` and from what `SET` said before in the file.
    """
    found = gather or Gathered()
    statements: list[SqlStatement] = []
    settings: dict[str, str] = {}
    database = ""
    for tokens in _split(_tokens(text, file)):
        line, own = tokens[0].line, text[tokens[0].start : tokens[-1].end + 1]
        with found.noting():
            head = [token.text.upper() for token in tokens[:2]]
            if head[0] == "USE" or head == ["SET", "CATALOG"]:
                database = _used(tokens, f"{file}:{line}")
                continue
            if head[0] == "SET":
                settings |= _setting(own, f"{file}:{line}")
                continue
            own = substituted(own, {**(variables or {}), **settings})
            statement = _parse_one(own, _tokens(own, file), file, line)
            spark_settings = {name: value for name, value in settings.items() if name.startswith("spark.")}
            statement = replace(statement, settings=spark_settings, database=database)
            statements.append(_in_database(statement) if database else statement)
    if gather is None:
        found.raise_any()
    return statements


def _tokens(text: str, file: str) -> list[Token]:
    try:
        return Spark().tokenize(text)
    except SqlglotError as failure:
        raise InputError(f"cannot be read as SQL: {failure}", file=file) from failure


def _split(tokens: list[Token]) -> list[list[Token]]:
    """At the semicolons."""
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [statement for statement in statements if statement]


def _used(tokens: list[Token], place: str) -> str:
    """The database that names of one part are completed with from here on."""
    words = [token.text.upper() for token in tokens]
    first = 2 if words[1:2] and words[1] in ("DATABASE", "SCHEMA", "NAMESPACE") else 1
    if words[1:2] == ["CATALOG"] or first >= len(tokens):
        raise UnsupportedError(
            f"found {' '.join(token.text for token in tokens)!r}, expected USE database",
            file=place,
            remedy="put the catalog into the pipeline spec, or in front of names (catalog.database.table)",
        )
    return _name_at(tokens, first)[0]


def _in_database(statement: SqlStatement) -> SqlStatement:
    """What it defines or writes into lies in the database that USE said; temporary views lie in none."""
    if statement.kind == "view" or "." in statement.target:
        return statement
    target = f"{statement.database}.{statement.target}"
    name = target if statement.name == statement.target else statement.name
    return replace(statement, name=name, target=target)


def _setting(statement: str, place: str) -> dict[str, str]:
    match = re.fullmatch(r"(?is)set\s+([^\s=]+)\s*=\s*(.*?)\s*", statement)
    if match is None:
        raise UnsupportedError(
            f"found {statement!r}, expected SET name = value",
            file=place,
            remedy=(
                "a setting applies to later definitions in the same file; put settings for all files "
                "under `configuration` in the pipeline spec"
            ),
        )
    return {match[1].strip("`"): match[2]}


_INSTEAD = {
    "TABLE": "CREATE STREAMING TABLE name AS SELECT ... FROM STREAM source, or CREATE MATERIALIZED VIEW",
    "INSERT": "CREATE FLOW name AS INSERT INTO table BY NAME SELECT ... FROM STREAM source",
    "SELECT": "CREATE TEMPORARY VIEW name AS SELECT ...",
}
"""First word of a statement that defines nothing, or what it creates -> what to write in a pipeline."""


def _parse_one(text: str, tokens: list[Token], file: str, line: int) -> SqlStatement:
    words = [token.text.upper() for token in tokens]
    head = [word for word in words[:8] if word not in _OPTIONAL]
    if head[:3] == ["CREATE", "STREAMING", "TABLE"]:
        return _with_query("table", text, tokens, _after(words, "TABLE"), line, file)
    if head[:3] == ["CREATE", "MATERIALIZED", "VIEW"]:
        return _with_query("materialized view", text, tokens, _after(words, "VIEW"), line, file)
    if head[:2] == ["CREATE", "VIEW"]:
        return _with_query("view", text, tokens, _after(words, "VIEW"), line, file)
    if head[:2] == ["CREATE", "FLOW"]:
        return _flow(text, tokens, words, line, file)
    shown = " ".join(token.text for token in tokens[:4])
    instead = _INSTEAD.get(head[1] if head[0] == "CREATE" and len(head) > 1 else head[0])
    raise UnsupportedError(
        f"found the statement {shown!r}, expected CREATE STREAMING TABLE, MATERIALIZED VIEW, TEMPORARY VIEW "
        "or FLOW",
        file=f"{file}:{line}",
        remedy=f"in a pipeline write {instead}" if instead else "run other statements outside the pipeline",
    )


def _after(words: list[str], keyword: str) -> int:
    at = words.index(keyword) + 1
    while words[at] in _OPTIONAL:
        at += 1
    return at


def _name_at(tokens: list[Token], at: int) -> tuple[str, int]:
    """A possibly dotted name, and the index after it."""
    parts = [tokens[at].text]
    while at + 2 < len(tokens) and tokens[at + 1].token_type is TokenType.DOT:
        at += 2
        parts.append(tokens[at].text)
    return ".".join(parts), at + 1


def _with_query(
    kind: StatementKind, text: str, tokens: list[Token], at: int, line: int, file: str
) -> SqlStatement:
    name, after_name = _name_at(tokens, at)
    words = [token.text.upper() for token in tokens]
    if any(words[i] == "CONSTRAINT" and words[i + 2 : i + 3] == ["EXPECT"] for i in range(len(words))):
        return SqlStatement("expectations", name, name, None, line)

    def clauses(between: list[Token]) -> TableArguments:
        if kind == "view":  # stored nowhere; its column names and comment are Spark's to read
            return NOTHING_SAID
        return read_clauses(text, between, name, f"{file}:{line}")

    depth = 0
    for i in range(after_name, len(tokens) - 1):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[i].token_type, 0)
        starts = tokens[i + 1].token_type in _QUERY_STARTS
        if depth == 0 and tokens[i].token_type is TokenType.ALIAS and starts:
            query = text[tokens[i + 1].start : tokens[-1].end + 1]
            said = clauses(tokens[after_name:i])
            return SqlStatement(kind, name, name, query, line, said)
    if kind == "table":  # fed by flows defined elsewhere
        return SqlStatement(kind, name, name, None, line, clauses(tokens[after_name:]))
    raise InputError(f"found no query after AS in the definition of {name!r}", file=f"{file}:{line}")


def _flow(text: str, tokens: list[Token], words: list[str], line: int, file: str) -> SqlStatement:
    name, at = _name_at(tokens, _after(words, "FLOW"))
    rest = words[at:]
    if rest[:3] == ["AS", "AUTO", "CDC"] or "CDC" in rest[:4]:
        into = words.index("INTO", at) if "INTO" in rest else None
        target = name if into is None else _name_at(tokens, into + 1)[0]
        return SqlStatement("auto cdc", name, target, None, line)
    if rest[:3] != ["AS", "INSERT", "INTO"]:
        raise InputError(
            f"found the flow {name!r} without AS INSERT INTO",
            file=f"{file}:{line}",
            remedy="write CREATE FLOW name AS INSERT INTO dataset BY NAME SELECT ...",
        )
    target, at = _name_at(tokens, at + 3)
    if words[at : at + 2] == ["BY", "NAME"]:
        at += 2
    if at >= len(tokens):
        raise InputError(f"found the flow {name!r} without a query", file=f"{file}:{line}")
    return SqlStatement("flow", name, target, text[tokens[at].start : tokens[-1].end + 1], line)


def tables_read(query: str) -> list[TableRead]:
    """The tables a query reads, without those it defines itself (common table expressions)."""
    plain = _plain(query)
    try:
        tree = sqlglot.parse_one(plain, dialect="spark")
    except SqlglotError:
        return _tables_after_from(plain)
    own = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    found = [
        ".".join(part.name for part in table.parts if isinstance(part, exp.Identifier))
        for table in tree.find_all(exp.Table)
    ]
    return _as_reads([name for name in found if name and name.lower() not in own])


def _tables_after_from(plain: str) -> list[TableRead]:
    """For a query that sqlglot cannot parse but Spark may: the names that follow FROM and JOIN."""
    tokens = Spark().tokenize(plain)
    found = [
        _name_at(tokens, at + 1)[0]
        for at, token in enumerate(tokens[:-1])
        if token.token_type in (TokenType.FROM, TokenType.JOIN)
        and tokens[at + 1].token_type is not TokenType.L_PAREN
    ]
    return _as_reads(found)


def _as_reads(found: list[str]) -> list[TableRead]:
    reads = [TableRead(name.removeprefix(_STREAM_MARK), name.startswith(_STREAM_MARK)) for name in found]
    return list(dict.fromkeys(reads))


def keeps_state(query: str) -> bool:
    """Whether the query groups, joins, deduplicates or limits, so that Spark keeps state for it."""
    try:
        tree = sqlglot.parse_one(_plain(query), dialect="spark")
    except SqlglotError:
        return True
    return tree.find(exp.Group, exp.Join, exp.Distinct, exp.Limit, exp.AggFunc) is not None


def joins(query: str) -> bool:
    try:
        return sqlglot.parse_one(_plain(query), dialect="spark").find(exp.Join) is not None
    except SqlglotError:
        return False


def puts_in_order(query: str) -> bool:
    try:
        return sqlglot.parse_one(_plain(query), dialect="spark").find(exp.Order) is not None
    except SqlglotError:
        return True


def normalised(query: str) -> str:
    """The query without comments and layout, so that only edits with a meaning change it."""
    try:
        return sqlglot.parse_one(_plain(query), dialect="spark").sql(dialect="spark", comments=False)
    except SqlglotError:
        return query


def _plain(query: str) -> str:
    """The query with what only Spark understands (`STREAM x`, `STREAM(x)`, `window(...)`) as plain names."""
    tokens, pieces, at, i = Spark().tokenize(query), [], 0, 0
    while i < len(tokens) - 1:
        follows = i > 0 and tokens[i - 1].token_type in (TokenType.FROM, TokenType.JOIN, TokenType.COMMA)
        if follows and tokens[i].text.upper() == "STREAM":
            bracket = tokens[i + 1].token_type is TokenType.L_PAREN
            first = i + 2 if bracket else i + 1
            name, after = _name_at(tokens, first)
            last = after if bracket else after - 1
            # `STREAM AS x` or a table really called stream: leave it alone.
            if tokens[first].token_type is not TokenType.ALIAS:
                pieces += [query[at : tokens[i].start], f"{_STREAM_MARK}{name}"]
                at, i = tokens[last].end + 1, last
        elif tokens[i].text.upper() == "WINDOW" and tokens[i + 1].token_type is TokenType.L_PAREN:
            # Spark's time window, a function; to sqlglot the word starts a WINDOW clause.
            pieces += [query[at : tokens[i].start], _WINDOW_MARK]
            at = tokens[i].end + 1
        i += 1
    return "".join([*pieces, query[at:]])
