"""What a measurement was made with: code, machine and versions. No names of hosts, users or folders."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARIES = {
    # module: the distribution that it comes from
    "numpy": "numpy",
    "scipy": "scipy",
    "numba": "numba",
    "msgspec": "msgspec",
    "yaml": "PyYAML",
    "simpy": "simpy",
    "pyspark": "pyspark",
    "pyarrow": "pyarrow",
}


def commit(root: Path = ROOT) -> str:
    """The short name of what is checked out, and whether anything but records was changed since."""
    name = _git(root, "rev-parse", "--short", "HEAD")
    changed = _git(root, "status", "--porcelain", "--", ".", ":(exclude)docs/results")
    return f"{name} with uncommitted changes" if changed else name


def _git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
    ).stdout.strip()


def machine() -> str:
    """Cores that we may use, their kind, and memory."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{len(os.sched_getaffinity(0))} cores ({_processor()}), {memory_gb:.0f} GB of memory"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def versions() -> str:
    """Of Python and of those libraries that the measurement has loaded."""
    loaded = [name for module, name in LIBRARIES.items() if module in sys.modules]
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in loaded)])


def load_average() -> float:
    """Of the last minute: how many processes wanted a core."""
    return os.getloadavg()[0]
