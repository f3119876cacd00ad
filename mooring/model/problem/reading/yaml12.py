"""YAML 1.2 (core schema) to plain data, straight from the parser's events.

PyYAML resolves scalars by YAML 1.1, where `no` is false and `1e6` is text, and silently keeps the last of
two equal keys. Building the data from events instead fixes both, is faster than PyYAML's own node tree, and
leaves nothing in between that could run code: tags beyond the core schema are refused.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import yaml

from mooring.errors import InputError
from mooring.model.problem.reading.fields import shown

# libyaml's parser is ten times as fast; the wheels of PyYAML carry it, a build from source may not. Only its
# events are used.
_Parser: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

MAX_DEPTH = 64
"""Deeper nesting than any problem file has; stops nesting bombs."""
MAX_ALIASED = 10_000_000
"""Values that all aliases together may stand for; stops files that repeat a long list ten thousand times."""

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
_LINE_END = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_TEXT_TAGS = {None, "!", "tag:yaml.org,2002:str"}
_PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null")}
_CONTAINER_TAGS = {None, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
_MISSING = object()
_SCALAR, _START_MAP, _END_MAP = yaml.ScalarEvent, yaml.MappingStartEvent, yaml.MappingEndEvent
_START_LIST, _END_LIST = yaml.SequenceStartEvent, yaml.SequenceEndEvent


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
            return _integer(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text


def _integer(text: str) -> int | float:
    """Beyond 15 digits no figure of a problem is exact anyway, and huge integers are slow to convert."""
    if text[:2] not in ("0o", "0x"):
        return int(text) if len(text) < 16 else float(text)
    return int(text, 0) if len(text) < 16 else float("inf")


def parse_yaml(text: str) -> object:
    """The one document in `text`, None if that is empty; `InputError` (without the file's name) if it is not
    that.
    """
    parser = None
    try:
        parser = _Parser(text)
        documents = _Builder(parser).build()
    except yaml.YAMLError as error:
        raise syntax_error(error, text) from None
    except UnicodeEncodeError:
        raise InputError("not valid YAML: found half of a surrogate pair") from None
    finally:
        if parser is not None:
            parser.dispose()
    if len(documents) > 1:
        raise InputError(f"found {len(documents)} YAML documents, expected one")
    return documents[0] if documents else None


class _Open(NamedTuple):
    """A container that is not closed yet: what to return to when the one inside it ends."""

    container: Any
    key: Any
    """Mappings: the key whose value is being read, or _MISSING where a key comes next."""
    anchor: str | None
    """The anchor of the container inside."""
    first: int
    """How many values had been read when the container inside began."""


class _Builder:
    """Events to data. `build` keeps the commonest events in one loop; a problem has a million of them."""

    def __init__(self, parser: Any) -> None:
        self._next_event = parser.get_event
        self._anchors: dict[str, tuple[object, int]] = {}
        self._aliased = 0

    def build(self) -> list[object]:
        documents: list[object] = []
        stack: list[_Open] = []
        container: Any = documents
        key: Any = _MISSING
        next_event, count = self._next_event, 0
        seen: dict[str, object] = {}  # plain scalars already resolved; names and figures come up often
        while True:
            event = next_event()
            kind = type(event)
            count += 1
            if kind is _SCALAR:
                is_key = key is _MISSING and type(container) is dict
                if event.tag is not None or event.anchor is not None:
                    value = self._rare_scalar(event, is_key)
                else:
                    value = event.value
                    if not is_key and event.implicit[0]:
                        value = seen[value] if value in seen else seen.setdefault(value, plain_scalar(value))
            elif kind is _START_MAP or kind is _START_LIST:
                self._check_start(event, stack, container, key)
                stack.append(_Open(container, key, event.anchor, count))
                container, key = ({} if kind is _START_MAP else []), _MISSING
                continue
            elif kind is _END_MAP or kind is _END_LIST:
                value = container
                container, key, anchor, first = stack.pop()
                if anchor is not None:  # only now, so that nothing can contain itself
                    self._anchors[anchor] = (value, count - first)
            elif kind is yaml.AliasEvent:
                value, size = self._alias(event)
                count += size
            elif kind is yaml.StreamEndEvent:
                return documents
            else:
                continue
            if type(container) is list:
                container.append(value)
            elif key is _MISSING:
                if type(value) is not str or value in container or (value == "<<" and event.implicit[0]):
                    raise _key_error(value, container, event)
                key = value
            else:
                container[key] = value
                key = _MISSING

    def _rare_scalar(self, event: Any, is_key: bool) -> object:
        if event.tag not in _TEXT_TAGS and event.tag not in _PLAIN_TAGS:
            raise _tag_error(event)
        plain = event.tag in _PLAIN_TAGS or (event.tag is None and event.implicit[0])
        value: object = plain_scalar(event.value) if plain and not is_key else event.value
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        return value

    def _check_start(self, event: Any, stack: list[_Open], container: Any, key: Any) -> None:
        if event.tag not in _CONTAINER_TAGS:
            raise _tag_error(event)
        if len(stack) >= MAX_DEPTH:
            raise InputError(f"found nesting deeper than {MAX_DEPTH} levels{_at(event)}")
        if key is _MISSING and type(container) is dict:
            raise _key_error({}, container, event)

    def _alias(self, event: Any) -> tuple[object, int]:
        if event.anchor not in self._anchors:
            name = shown(event.anchor)
            raise InputError(f"found the alias {name} without an anchor of that name before it{_at(event)}")
        value, size = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise InputError(f"found aliases that stand for more than {MAX_ALIASED} values{_at(event)}")
        return value, size


def _key_error(value: object, container: dict[str, object], event: Any) -> InputError:
    if not isinstance(value, str):
        what = "a list or mapping" if isinstance(value, dict | list) else shown(value)
        return InputError(f"found {what} as a key{_at(event)}, expected a name")
    if value in container:
        return InputError(
            f"found the key {shown(value)} twice{_at(event)}", remedy="remove or rename one of them"
        )
    return InputError(f"found a merge key <<{_at(event)}; YAML 1.2 has none", remedy="write the fields out")


def _at(event: Any) -> str:
    mark = event.start_mark
    return f" at line {mark.line + 1}, column {mark.column + 1}"


def _tag_error(event: Any) -> InputError:
    return InputError(
        f"found the tag {shown(event.tag)}{_at(event)}; expected plain data", remedy="remove the tag"
    )


def syntax_error(error: yaml.YAMLError, text: str) -> InputError:
    """What to write instead, where a tab, an indent or a bracket is at fault: the parser names what it was
    reading, which says little to whoever wrote the file.
    """
    mark = getattr(error, "problem_mark", None)
    what = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read")
    if mark is None:
        return InputError(f"not valid YAML: {what[:200]}")
    lines = _LINE_END.split(text)
    line = lines[mark.line] if mark.line < len(lines) else ""
    at, remedy = f"at line {mark.line + 1}, column {mark.column + 1}", None
    own, context = _indent(line), getattr(error, "context_mark", None)
    opened = {"while parsing a flow mapping": "{}", "while parsing a flow sequence": "[]"}.get(
        getattr(error, "context", None) or ""
    )
    if "\t" in line[: len(line) - len(line.lstrip())] or line[mark.column : mark.column + 1] == "\t":
        what, remedy = "found a tab, and YAML is indented with spaces", "replace it with spaces"
    elif opened is not None and context is not None:
        what = f"the {opened[0]} of line {context.line + 1} is not closed"
        remedy = f"close it with {opened[1]}"
    elif own is not None and own not in (around := _open_indents(lines[: mark.line])) and around:
        near = min(around, key=lambda indent: abs(indent - own))
        levels = " or ".join(map(str, sorted(around)))
        what = f"found an indent of {own}, and the lines that it may belong to are indented by {levels}"
        remedy = f"indent it by {near}" if near else "begin it without a space"
    elif "mapping values are not allowed" in what:
        remedy = "put a text with a colon in quotes"
    return InputError(f"not valid YAML {at}: {what[:200]}", remedy=remedy)


def _indent(line: str) -> int | None:
    """How many spaces it begins with; None where nothing or only a comment follows."""
    content = line.lstrip(" ")
    return None if not content or content.startswith("#") else len(line) - len(content)


def _open_indents(lines: list[str]) -> set[int]:
    """Of the blocks that the last of the lines lies in."""
    found: set[int] = set()
    for line in reversed(lines):
        indent = _indent(line)
        if indent is not None and (not found or indent < min(found)):
            found.add(indent)
            found |= {indent + 2} if line[indent:].startswith("- ") else set()
        if indent == 0:
            break
    return found
