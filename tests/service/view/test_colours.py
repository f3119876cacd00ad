"""The page's colours can be told from what they lie on, in light and in dark (WCAG 2.2, AA)."""

from __future__ import annotations

import re
from typing import Literal

import pytest

from mooring.service.view.page_sources import page_file

TEXT, SHAPE = 4.5, 3.0


def colours(mode: Literal["light", "dark"]) -> dict[str, str]:
    light, dark = re.findall(r":root \{(.*?)\}", page_file("page.css"), re.DOTALL)
    found = dict(re.findall(r"--([\w-]+): (#\w+)", light))
    return found if mode == "light" else found | dict(re.findall(r"--([\w-]+): (#\w+)", dark))


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_words_and_shapes_stand_out_from_what_they_lie_on(mode: Literal["light", "dark"]) -> None:
    known = colours(mode)
    wanted = {
        (name, on): TEXT
        for name in ("ink", "dim", "sea", "ok", "warn", "bad")
        for on in ("bg", "card", "soft")
    }
    wanted |= {("on-sea", "sea"): TEXT, ("card", "warn"): TEXT}
    wanted |= {(name, "card"): SHAPE for name in ("rim", *(f"c{k}" for k in range(8)))}
    found = {pair: contrast(known[pair[0]], known[pair[1]]) for pair in wanted}
    assert not {pair: round(value, 2) for pair, value in found.items() if value < wanted[pair]}
