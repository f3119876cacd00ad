"""The style of all figures: one colour per policy, and no ink without information."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {
    "rod": "#1b6ca8",
    "resilient": "#c2185b",
    "resilient unaware": "#e79ab8",
    "rod unclustered": "#9cc3e0",
    "correlation": "#d9822b",
    "llf": "#3a9d5d",
    "random": "#8a8a8a",
    "connected": "#b5403c",
    "max_rate": "#7d5ba6",
    "optimal": "#222222",
    "relaxation": "#1b6ca8",
    "ip_multicast": "#3a9d5d",
    "producer": "#d9822b",
    "consumer": "#b5403c",
}
_OTHER = "#5aa7b5"


def colour_of(policy: str) -> str:
    return _COLOURS.get(policy, _OTHER)


def tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
