"""Real clips as array frames: animated images, and whatever `ffmpeg` reads where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mooring.arrays import Bytes
from mooring.errors import InputError

IMAGES = {".gif", ".png", ".apng", ".webp", ".tif", ".tiff"}
WIDTH = 320
"""Clips are scaled to this many columns: a demo, not an archive."""

_HEAD = re.compile(rb"P5\s+(\d+)\s+(\d+)\s+255\s")


def read_clip(path: Path, most_frames: int) -> Iterator[Bytes]:
    """Shades of grey of one frame after the other."""
    if not path.is_file():
        raise InputError("no such file", file=path, remedy="check the path")
    if path.suffix.lower() in IMAGES:
        yield from _images(path, most_frames)
    elif shutil.which("ffmpeg") is None:
        raise InputError(
            f"found a {path.suffix or 'file'}, which takes ffmpeg to decode, and no ffmpeg",
            file=path,
            remedy=f"install ffmpeg, or give one of {', '.join(sorted(IMAGES))}",
        )
    else:
        yield from _decoded(path, most_frames)


def _images(path: Path, most_frames: int) -> Iterator[Bytes]:
    from PIL import Image, ImageSequence, UnidentifiedImageError

    try:
        with Image.open(path) as clip:
            height = max(8, round(clip.height * WIDTH / clip.width))
            for number, frame in enumerate(ImageSequence.Iterator(clip)):
                if number == most_frames:
                    return
                yield np.asarray(frame.convert("L").resize((WIDTH, height)), dtype=np.uint8)
    except (UnidentifiedImageError, OSError) as error:
        raise InputError(f"cannot be decoded: {error}", file=path) from None


def _decoded(path: Path, most_frames: int) -> Iterator[Bytes]:
    """As a stream of portable greymaps, which carry their own size."""
    command = ["ffmpeg", "-v", "error", "-i", str(path), "-vf", f"scale={WIDTH}:-2", "-frames:v"]
    command += [str(most_frames), "-f", "image2pipe", "-c:v", "pgm", "-"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(f"cannot be decoded: {said[-1] if said else 'ffmpeg failed'}", file=path)
    yield from greymaps(done.stdout)


def greymaps(data: bytes) -> Iterator[Bytes]:
    """Binary greymaps (PGM), one after the other.

    >>> [image.tolist() for image in greymaps(b"P5\\n2 1\\n255\\nAB" * 2)]
    [[[65, 66]], [[65, 66]]]
    """
    at = 0
    while at < len(data):
        head = _HEAD.match(data, at)
        if head is None:
            raise InputError(f"found {data[at : at + 12]!r}, expected a greymap of 255 shades")
        columns, rows = int(head[1]), int(head[2])
        end = head.end() + columns * rows
        yield np.frombuffer(data[head.end() : end], dtype=np.uint8).reshape(rows, columns)
        at = end
