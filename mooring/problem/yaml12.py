"""YAML 1.2 (core schema) to plain data, straight from the parser's events.

PyYAML resolves scalars by YAML 1.1, where `no` is false and `1e6` is text, and silently keeps the last of
two equal keys. Building the data from events instead fixes both, is faster than PyYAML's own node tree, and
leaves nothing in between that could run code: tags beyond the core schema are refused.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from mooring.errors import InputError

_Parser: Any = getattr(yaml, "CParser", None)  # libyaml's, an order of magnitude faster

MAX_DEPTH = 64
"""Deeper nesting than any problem file has; stops nesting bombs."""

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_CORE = "tag:yaml.org,2002:"
_CORE_TAGS = {f"{_CORE}{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}
_MISSING = object()


def plain_scalar(text: str) -> object:
    """What an unquoted scalar means in the core schema.

    >>> [plain_scalar(text) for text in ("1e6", "no", "true", "0x10", "~", "12")]
    [1000000.0, 'no', True, 16, None, 12]
    """
    special = _SPECIAL.get(text, _MISSING)
    if special is not _MISSING:
        return special
    if text[0] in "+-.0123456789":
        if _INT.fullmatch(text):
            # Beyond 15 digits no figure of a problem is exact anyway, and huge integers are slow to convert.
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text) if len(text) < 16 else float(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text


def parse_yaml(text: str) -> object:
    """The one document in `text`; `InputError` (without the file's name) if it is not that."""
    parser = (_Parser or yaml.SafeLoader)(text)
    try:
        return _build(parser)
    except yaml.YAMLError as error:
        raise _syntax_error(error) from None
    finally:
        parser.dispose()


def _build(parser: Any) -> object:
    # Each open container: itself, the pending key of a mapping or _MISSING, its anchor.
    stack: list[list[Any]] = []
    anchors: dict[str, object] = {}
    documents: list[object] = []
    while True:
        event = parser.get_event()
        kind = type(event)
        if kind is yaml.ScalarEvent:
            value: object = event.value
            if event.tag is not None and event.tag not in _CORE_TAGS and event.tag != "!":
                raise _tag_error(event)
            expects_key = bool(stack) and type(stack[-1][0]) is dict and stack[-1][1] is _MISSING
            if not expects_key and event.implicit[0] and event.tag in (None, *_CORE_TAGS):
                value = plain_scalar(event.value)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            if event.tag is not None and event.tag not in _CORE_TAGS:
                raise _tag_error(event)
            if len(stack) >= MAX_DEPTH:
                raise InputError(f"found nesting deeper than {MAX_DEPTH} levels{_at(event)}")
            value = {} if kind is yaml.MappingStartEvent else []
            stack.append([value, _MISSING, event.anchor])
            continue
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            value, _, anchor = stack.pop()
            if anchor:  # only now, so that nothing can contain itself
                anchors[anchor] = value
        elif kind is yaml.AliasEvent:
            if event.anchor not in anchors:
                raise InputError(
                    f"found the alias *{event.anchor} without an anchor &{event.anchor}{_at(event)}"
                )
            value = anchors[event.anchor]
        elif kind is yaml.StreamEndEvent:
            break
        else:
            continue
        if kind is yaml.ScalarEvent and event.anchor:
            anchors[event.anchor] = value
        _attach(stack, documents, value, event)
    if len(documents) != 1:
        raise InputError(f"found {len(documents)} YAML documents, expected one")
    return documents[0]


def _attach(stack: list[list[Any]], documents: list[object], value: object, event: Any) -> None:
    if not stack:
        documents.append(value)
        return
    top = stack[-1]
    container = top[0]
    if type(container) is list:
        container.append(value)
    elif top[1] is _MISSING:
        if not isinstance(value, str):
            raise InputError(f"found a list or mapping as a key{_at(event)}, expected a name")
        if value == "<<":
            raise InputError(
                f"found a merge key <<{_at(event)}; YAML 1.2 has none", remedy="write the fields out"
            )
        if value in container:
            raise InputError(
                f"found the key {value!r} twice{_at(event)}", remedy="remove or rename one of them"
            )
        top[1] = value
    else:
        container[top[1]] = value
        top[1] = _MISSING


def _at(event: Any) -> str:
    mark = event.start_mark
    return f" at line {mark.line + 1}, column {mark.column + 1}"


def _tag_error(event: Any) -> InputError:
    return InputError(
        f"found the tag {event.tag!r}{_at(event)}; expected plain data", remedy="remove the tag"
    )


def _syntax_error(error: yaml.YAMLError) -> InputError:
    mark = getattr(error, "problem_mark", None)
    where = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
    what = getattr(error, "problem", None) or str(error).splitlines()[0]
    return InputError(f"not valid YAML{where}: {what[:200]}")
