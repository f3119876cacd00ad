"""Clips come in frame by frame, as shades of grey."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from examples.moving_scene.scene.clip import WIDTH, greymaps, read_clip
from mooring.errors import InputError


def test_an_animated_image_is_a_clip(tmp_path: Path) -> None:
    frames = [Image.fromarray(np.full((20, 40), shade, dtype=np.uint8)) for shade in (10, 200, 90)]
    frames[0].save(tmp_path / "clip.gif", save_all=True, append_images=frames[1:])
    found = list(read_clip(tmp_path / "clip.gif", most_frames=2))
    assert [cells.shape for cells in found] == [(WIDTH // 2, WIDTH)] * 2
    assert [int(cells.mean()) for cells in found] == [10, 200]


def test_greymaps_are_told_apart_by_their_sizes() -> None:
    """Also where the figures in the head repeat, or look like each other."""
    data = b"P5\n255 2\n255\n" + bytes(510) + b"P5\n2 2\n255\n" + bytes([1, 2, 3, 4])
    assert [image.shape for image in greymaps(data)] == [(2, 255), (2, 2)]


def test_what_cannot_be_decoded_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clip.gif").write_text("no image")
    with pytest.raises(InputError, match="cannot be decoded"):
        list(read_clip(tmp_path / "clip.gif", 1))
    (tmp_path / "clip.mp4").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="takes ffmpeg to decode"):
        list(read_clip(tmp_path / "clip.mp4", 1))
    with pytest.raises(InputError, match="no such file"):
        list(read_clip(tmp_path / "none.gif", 1))
