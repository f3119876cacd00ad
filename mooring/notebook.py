"""Results in a notebook: as an HTML table, as a pandas frame, as a file, as bars."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mooring.atomic_files import write_whole
from mooring.errors import InputError
from mooring.figure_style import tidy
from mooring.plain_json import plain

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

Cell = str | float | None
Rows = Mapping[str, Mapping[str, Cell]]
"""By the name that begins a row; a row may lack columns."""
_BAR, _ACROSS = "#1b6ca8", 4
MOST_ROWS = 200
"""In a table that is shown; frames and files have all."""


def html_table(caption: str, rows: Rows, notes: Sequence[str] = ()) -> str:
    """Escaped: names come from files that anybody may have written.

    >>> html_table("<b>", {"a & b": {"load": 0.51234}}).split("<tr>")[-1]
    '<th>a &amp; b</th><td>0.512</td></tr></table>'
    """
    columns = _columns(rows)
    head = "".join(f"<th>{escape(column)}</th>" for column in ["", *columns])
    body = "".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(f"<td>{escape(_shown(row.get(column)))}</td>" for column in columns)
        + "</tr>"
        for name, row in list(rows.items())[:MOST_ROWS]
    )
    more = [f"{len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []
    below = "".join(f"<p>{escape(note)}</p>" for note in [*more, *notes])
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>{below}"


def data_frame(rows: Rows, index: str) -> pandas.DataFrame:
    """A row each, named by `index`."""
    try:
        import pandas
    except ImportError:
        raise InputError(
            "to_pandas() needs pandas, which is not installed",
            remedy="pip install pandas",
        ) from None
    known: list[dict[str, Any]] = [dict(row) for row in rows.values()]
    names = pandas.Index(list(rows), name=index)
    return pandas.DataFrame(known, index=names, columns=_columns(rows))


def save_json(file: str | PathLike[str], document: object) -> Path:
    path = Path(file)
    try:
        write_whole(path, json.dumps(plain(document), indent=2, allow_nan=False) + "\n")
    except OSError as error:
        raise InputError(f"cannot be written: {error}", file=path) from None
    return path


def bars(panels: Mapping[str, Mapping[str, float]], colours: Mapping[str, str] | None = None) -> Figure:
    """A panel for each group of values, with a bar for every name; the same names in all of them."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for values in panels.values() for name in values))
    across = max(1, min(_ACROSS, len(panels)))
    down = max(1, -(-len(panels) // across))
    figure = Figure(figsize=(1.5 + 2.8 * across, down * (0.8 + 0.32 * len(names))), layout="constrained")
    drawn = figure.subplots(down, across, squeeze=False, sharey=True)
    for axes, (title, values) in zip(drawn.flat, panels.items(), strict=False):
        lengths = [values.get(name, 0.0) for name in names]
        labels = [f"{values[name]:.3g}" if name in values else "" for name in names]
        colour = [_BAR if colours is None else colours[name] for name in names]
        axes.bar_label(axes.barh(range(len(names)), lengths, color=colour), labels, padding=3)
        axes.set_title(title.replace("_", " "))
        axes.margins(x=0.2)
        tidy(axes)
        axes.grid(visible=False)
    for axes in drawn.flat[len(panels) :]:
        axes.remove()
    drawn[0, 0].set_yticks(range(len(names)), names)
    drawn[0, 0].invert_yaxis()
    return figure


def _columns(rows: Rows) -> list[str]:
    return list(dict.fromkeys(column for row in rows.values() for column in row))


def _shown(value: Cell) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
