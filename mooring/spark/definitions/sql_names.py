"""Names of several parts inside a query, replaced by those of the session's temporary views.

Done on the tokens, so that everything else stays as written and Spark names the user's own lines. A table
named `silver.orders` becomes the view of that key under the alias `orders`, since columns may be written
`orders.id` or `silver.orders.id`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from mooring.spark.definitions.names import quoted

_ENDS_TABLES = {"SELECT", "WHERE", "GROUP", "ORDER", "HAVING", "ON", "USING", "UNION", "EXCEPT", "INTERSECT"}
_NO_ALIAS = {"WATERMARK", "TABLESAMPLE", "PIVOT", "UNPIVOT", "LATERAL", "VERSION", "TIMESTAMP", "WITH", "FOR"}


@dataclass(frozen=True)
class _Chain:
    """A dotted name: the tokens `first` to `last`."""

    first: int
    last: int
    parts: tuple[str, ...]
    is_table: bool


def with_view_names(query: str, view_of: Callable[[str], str | None]) -> str:
    """`view_of` gives the dataset that a name of several parts stands for; None: another table.

    >>> with_view_names("SELECT s.t.a FROM STREAM s.t WHERE t.a > 1", {"s.t": "s.t"}.get)
    'SELECT t.a FROM STREAM `s.t` AS t WHERE t.a > 1'
    """
    if "." not in query:
        return query
    try:
        tokens = Spark().tokenize(query)
    except SqlglotError:
        return query
    chains = _chains(tokens)
    views = {
        _lower(chain.parts): view
        for chain in chains
        if chain.is_table and (view := view_of(".".join(chain.parts))) is not None
    }
    pieces, at = [], 0
    for chain in chains:
        if chain.is_table and (view := views.get(_lower(chain.parts))) is not None:
            end, alias = _alias(tokens, chain)
            kept = query[tokens[chain.last].end + 1 : tokens[end].end + 1]
            pieces += [query[at : tokens[chain.first].start], quoted(view), kept, alias]
            at = tokens[end].end + 1
        elif (table := _qualifier(chain.parts, views)) is not None:
            last_of_table = chain.first + 2 * (len(table) - 1)
            pieces.append(query[at : tokens[chain.first].start])
            at = tokens[last_of_table].start
    return "".join([*pieces, query[at:]])


def with_tables_at_rest(query: str, view_of: Callable[[str], str | None]) -> str:
    """Tables that are read without `STREAM` by the view that `view_of` gives for them; None: as they are.

    >>> with_tables_at_rest("SELECT x.a FROM STREAM x JOIN x AS y JOIN x", {"x": "x at rest"}.get)
    'SELECT x.a FROM STREAM x JOIN `x at rest` AS y JOIN `x at rest` AS x'
    """
    try:
        tokens = Spark().tokenize(query)
    except SqlglotError:
        return query
    pieces, at, own = [], 0, _own_tables(tokens)
    for chain in _chains(tokens, single=True):
        name = chain.parts[0]
        if not chain.is_table or len(chain.parts) > 1 or name.casefold() in own or _streams(tokens, chain):
            continue
        if (view := view_of(name)) is not None:
            _, alias = _alias(tokens, chain)
            pieces += [query[at : tokens[chain.first].start], quoted(view), alias]
            at = tokens[chain.last].end + 1
    return "".join([*pieces, query[at:]])


def _own_tables(tokens: list[Token]) -> set[str]:
    """Names that the query itself defines: `WITH x AS (...)`."""
    return {
        name.text.casefold()
        for name, word, bracket in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if word.token_type is TokenType.ALIAS and bracket.token_type is TokenType.L_PAREN
    }


def _streams(tokens: list[Token], chain: _Chain) -> bool:
    before = [token.text.upper() for token in tokens[max(0, chain.first - 2) : chain.first]]
    return before[-1:] == ["STREAM"] or before == ["STREAM", "("]


def with_database(query: str, database: str, is_dataset: Callable[[str], bool]) -> str:
    """Tables of one part under the database that `USE` said, where that is a dataset.

    >>> with_database("SELECT * FROM a JOIN b", "s", {"s.a"}.__contains__)
    'SELECT * FROM s.a JOIN b'
    """
    try:
        tokens = Spark().tokenize(query)
    except SqlglotError:
        return query
    pieces, at = [], 0
    for chain in _chains(tokens, single=True):
        if chain.is_table and len(chain.parts) == 1 and is_dataset(f"{database}.{chain.parts[0]}"):
            start = tokens[chain.first].start
            pieces += [query[at:start], f"{database}."]
            at = start
    return "".join([*pieces, query[at:]])


def _chains(tokens: list[Token], *, single: bool = False) -> list[_Chain]:
    """`single`: names of one part too."""
    found: list[_Chain] = []
    among_tables, i = [False], 0
    while i < len(tokens):
        token = tokens[i]
        if token.token_type is TokenType.L_PAREN:
            among_tables.append(False)
        elif token.token_type is TokenType.R_PAREN and len(among_tables) > 1:
            among_tables.pop()
        elif token.token_type in (TokenType.FROM, TokenType.JOIN):
            among_tables[-1] = True
        elif token.text.upper() in _ENDS_TABLES and token.token_type is not TokenType.IDENTIFIER:
            among_tables[-1] = False
        last = i
        while last + 2 < len(tokens) and tokens[last + 1].token_type is TokenType.DOT:
            last += 2
        if last > i or (single and token.token_type in (TokenType.VAR, TokenType.IDENTIFIER)):
            parts = tuple(tokens[k].text for k in range(i, last + 1, 2))
            found.append(_Chain(i, last, parts, _is_table(tokens, i, among_tables=among_tables[-1])))
        i = last + 1
    return found


def _is_table(tokens: list[Token], at: int, *, among_tables: bool) -> bool:
    before = tokens[at - 1] if at else None
    if before is None:
        return False
    if before.token_type is TokenType.L_PAREN and at > 1:
        return tokens[at - 2].text.upper() == "STREAM"
    if before.token_type in (TokenType.FROM, TokenType.JOIN) or before.text.upper() == "STREAM":
        return True
    return among_tables and before.token_type is TokenType.COMMA


def _alias(tokens: list[Token], chain: _Chain) -> tuple[int, str]:
    """The last token before an alias of the table would stand, and the alias if the query gives none."""
    end = chain.last
    opened = chain.first and tokens[chain.first - 1].token_type is TokenType.L_PAREN
    if opened and end + 1 < len(tokens) and tokens[end + 1].token_type is TokenType.R_PAREN:
        end += 1
    following = tokens[end + 1] if end + 1 < len(tokens) else None
    has_own = following is not None and (
        following.token_type in (TokenType.ALIAS, TokenType.VAR, TokenType.IDENTIFIER)
        or following.text.upper() in _NO_ALIAS
    )
    last = chain.parts[-1]
    return end, "" if has_own else f" AS {last if last.isidentifier() else quoted(last)}"


def _qualifier(parts: tuple[str, ...], views: dict[tuple[str, ...], str]) -> tuple[str, ...] | None:
    """The table that a column's name begins with."""
    return next((parts[:n] for n in range(2, len(parts)) if _lower(parts[:n]) in views), None)


def _lower(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.casefold() for part in parts)
