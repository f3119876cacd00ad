"""What the commands say, recorded before a change and compared after it, byte for byte, times aside.

    python -m lab.benchmarks.recorded_outputs record FOLDER     # with the code as it was
    python -m lab.benchmarks.recorded_outputs compare FOLDER  # with the code as it is; lists every difference

Every policy on every example problem through `plan`, `evaluate`, `headroom` and `simulate`, every decider on
an example that changes, the example of chunks, the example projects, and every experiment that needs no Spark
with `--quick`. Anytime policies get a number of steps, so that the same seed gives the same bytes.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mooring.cli.main import main

EXAMPLES = ("network_monitoring", "forest", "wide_area", "flood")
PROJECTS = ("network_monitoring", "moving_scene")
CHANGING = "flood"
"""The example in which things change on the way."""
DECIDERS = ("none", "headroom", "replan", "relaxation", "ants", "overlay")
ASSIGNMENTS = ("global", "local", "tiered", "dedicated", "shared", "earliest-finish")
BOUNDED = {"resilient": ["--steps", "20000"], "optimal": ["--set", "node_budget=20000"]}
"""What makes an anytime or exact policy end soon, and at the same step everywhere."""
TIMES = ("plan_seconds", "seconds_to_plan", "plan_ms", "files")
"""Keys that tell how long something took, or where it was written."""
RENAMED = {f"figure{n}": f"rod_figure{n}" for n in (9, 14, 15, 16, 17, 18, 19)} | {"table3": "rod_table3"}
"""Experiments under the names they had; a record under an old name is compared with the new one."""


def spoken(words: list[str]) -> tuple[int, str]:
    """Exit code and standard output of one command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = main(words)
    return code, out.getvalue()


def document(words: list[str]) -> dict[str, Any]:
    code, text = spoken([*words, "--json"])
    try:
        said = json.loads(text)
    except ValueError:
        said = {"text": text}
    return {"exit": code, "document": _without_times(said)}


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if key not in TIMES}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def policy_names() -> list[str]:
    return [each["name"] for each in document(["policies"])["document"]["policies"]]


def commands(scratch: Path) -> Iterator[tuple[str, list[str]]]:
    """Name and words of every command, in the order in which they need each other's files."""
    for example in EXAMPLES:
        file = f"examples/{example}.yaml"
        yield f"check-{example}", ["check", file]
        for policy in policy_names():
            plan = scratch / f"{example}-{policy}.json"
            yield (
                f"plan-{example}-{policy}",
                ["plan", file, "--policy", policy, *BOUNDED.get(policy, ()), "--output", str(plan)],
            )
            if plan.exists():
                yield f"evaluate-{example}-{policy}", ["evaluate", file, "--placement", str(plan)]
                yield (
                    f"simulate-{example}-{policy}",
                    ["simulate", file, "--placement", str(plan), "--seconds", "2"],
                )
                yield f"headroom-{example}-{policy}", ["headroom", file, "--placement", str(plan)]
    yield "policies", ["policies"]
    for decider in DECIDERS:
        file = f"examples/{CHANGING}.yaml"
        yield f"adapt-{decider}", ["simulate", file, "--adapt", decider, "--alone", "--seconds", "400"]
    for assignment in ASSIGNMENTS:
        yield (
            f"chunks-{assignment}",
            ["chunks", "examples/cameras.yaml", "--assign", assignment, "--steps", "20"],
        )
    for each in document(["experiment"])["document"]["experiments"]:
        if not each["name"].startswith("spark_"):
            yield (
                f"experiment-{each['name']}",
                ["experiment", each["name"], "--quick", "--output", str(scratch)],
            )
    for project in PROJECTS:  # last: their definitions are read with Spark
        yield f"project-check-{project}", ["check", f"examples/{project}"]
        yield f"project-plan-{project}", ["plan", f"examples/{project}", "--policy", "rod"]


def record(folder: Path) -> None:
    scratch = folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    for name, words in commands(scratch):
        print(name, flush=True)
        text = json.dumps(document(words), indent=1, sort_keys=True)
        (folder / f"{name}.json").write_text(text.replace(str(scratch), "SCRATCH") + "\n")


def compare(folder: Path) -> int:
    now = folder / "now"
    record(now)
    before = {_renamed(file.stem): file for file in folder.glob("*.json")}
    after = {file.stem: file for file in now.glob("*.json")}
    different = 0
    for name in sorted(before | after):
        if name not in before or name not in after:
            print(f"{name}: only {'before' if name in before else 'after'}")
        elif _told(before[name]) != _told(after[name]):
            print(f"{name}: differs (diff {before[name]} {after[name]})")
        else:
            continue
        different += 1
    print(f"{len(before)} recorded, {len(after)} now, {different} differ")
    return different


def _renamed(name: str) -> str:
    kind, _, rest = name.partition("-")
    return f"{kind}-{RENAMED.get(rest, rest)}" if kind == "experiment" else name


def _told(file: Path) -> Any:
    said = json.loads(file.read_text())
    if isinstance(said["document"], dict) and "experiment" in said["document"]:
        name = said["document"]["experiment"]
        said["document"]["experiment"] = RENAMED.get(name, name)
    return said


if __name__ == "__main__":
    verb, where = sys.argv[1], Path(sys.argv[2]).resolve()
    if verb == "record":
        record(where)
    else:
        sys.exit(min(compare(where), 1))
