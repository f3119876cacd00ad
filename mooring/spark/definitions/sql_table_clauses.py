"""The clauses between a table's name and its query in SQL: columns, USING, PARTITIONED BY, COMMENT and more.

CREATE STREAMING TABLE x (a INT, b STRING) USING orc PARTITIONED BY (b) COMMENT 'about' TBLPROPERTIES
('k' = 'v') AS SELECT ...
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokens import Token, TokenType

from mooring.errors import InputError, UnsupportedError
from mooring.spark.definitions.table_arguments import TableArguments


def read_clauses(text: str, tokens: list[Token], name: str, place: str) -> TableArguments:
    """`tokens`: those between the name and AS, or the end of the statement."""
    return _Clauses(text, tokens, name, place).read()


class _Clauses:
    def __init__(self, text: str, tokens: list[Token], name: str, place: str) -> None:
        self._text, self._tokens, self._name, self._place = text, tokens, name, place
        self._at = 0

    def read(self) -> TableArguments:
        found = TableArguments()
        if self._is(TokenType.L_PAREN):
            inside = self._bracket()
            if inside:
                found = replace(found, schema=self._text[inside[0].start : inside[-1].end + 1])
        while self._at < len(self._tokens):
            found = self._clause(found)
        return found

    def _clause(self, found: TableArguments) -> TableArguments:
        # PARTITIONED BY is one token, or two where a comment stands between.
        words = " ".join(token.text.upper() for token in self._tokens[self._at : self._at + 2]).split()[:2]
        if words[0] == "USING":
            return replace(found, format=self._next(1).text.lower())
        if words == ["PARTITIONED", "BY"]:
            return replace(found, partition_cols=self._names())
        if words == ["CLUSTER", "BY"]:
            return replace(found, cluster_by=self._names())
        if words[0] == "COMMENT":
            return replace(found, comment=self._next(1).text)
        if words[0] == "TBLPROPERTIES":
            return replace(found, properties=self._properties())
        if words[0] == "AS":
            raise InputError(
                f"found {' '.join(words)} in the definition of {self._name!r}, expected a query after AS",
                file=self._place,
            )
        raise UnsupportedError(
            f"the definition of {self._name!r} has {' '.join(words)}, expected (columns), USING, PARTITIONED "
            "BY, CLUSTER BY, COMMENT or TBLPROPERTIES before AS",
            file=self._place,
            remedy="remove it: tables are stored under `storage` (mooring.yml)",
        )

    def _is(self, kind: TokenType) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].token_type is kind

    def _next(self, skipped: int) -> Token:
        """The token after some, which are passed over with it."""
        self._at += skipped + 1
        if self._at > len(self._tokens):
            raise self._unfinished()
        return self._tokens[self._at - 1]

    def _bracket(self) -> list[Token]:
        """What stands between two brackets, the first of which is next."""
        if not self._is(TokenType.L_PAREN):
            raise self._unfinished()
        depth, first = 0, self._at + 1
        for at in range(self._at, len(self._tokens)):
            kind = self._tokens[at].token_type
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(kind, 0)
            if depth == 0:
                self._at = at + 1
                return self._tokens[first:at]
        raise self._unfinished()

    def _names(self) -> tuple[str, ...]:
        """Column names in brackets, after BY."""
        while not self._next(0).text.upper().endswith("BY"):
            pass
        names, parts = list[str](), list[str]()
        for token in [*self._bracket(), None]:
            if token is None or token.token_type is TokenType.COMMA:
                names += ["".join(parts)] if parts else []
                parts = []
            else:
                parts.append(token.text)
        return tuple(names)

    def _properties(self) -> dict[str, str]:
        """`('a' = 'b', c.d = 1)`."""
        self._at += 1
        found, key, value = dict[str, str](), list[str](), list[str]()
        side = key
        for token in [*self._bracket(), None]:
            if token is None or token.token_type is TokenType.COMMA:
                if key:
                    found["".join(key)] = "".join(value)
                key, value = [], []
                side = key
            elif token.token_type is TokenType.EQ:
                side = value
            else:
                side.append(token.text)
        return found

    def _unfinished(self) -> InputError:
        return InputError(
            f"the definition of {self._name!r} ends in the middle of a clause", file=self._place
        )
