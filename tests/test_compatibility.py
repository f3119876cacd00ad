"""Every row of the compatibility table is backed by a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "compatibility.md"
PROJECTS = ROOT / "tests" / "spark" / "projects"


def rows() -> list[list[str]]:
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in ("feature", "---")]


def test_every_row_names_a_test() -> None:
    assert rows()
    for feature, _, test in rows():
        links = re.findall(r"\]\(\.\./(tests/[^)#]+)", test)
        assert links, f"{feature}: no test"
        for link in links:
            found = ROOT / link
            shows = found.suffix == ".py" or (found / "golden.json").is_file()
            assert shows, f"{feature}: {link} shows nothing"


def test_every_project_of_the_suite_stands_in_the_table() -> None:
    shown = " ".join(test for *_, test in rows())
    projects = {file.parent.name for file in PROJECTS.glob("*/golden.json")}
    assert {name for name in projects if f"projects/{name})" not in shown} == set()


def test_no_guide_lists_as_refused_what_the_table_says_runs() -> None:
    """Streams of materialized views were on such a list while the table had them as running."""
    runs = [feature for feature, how, _ in rows() if how.startswith("as plain Spark:")]
    assert any(feature.startswith("streams of a materialized view") for feature in runs)
    guides = [TABLE.parent / f"{name}.md" for name in ("spark", "spark-project", "views")]
    lists = [
        paragraph
        for guide in guides
        for paragraph in re.split(r"\n(?=\n|- )", guide.read_text(encoding="utf-8"))
        if "**Refused**" in paragraph
    ]
    assert lists
    assert not [paragraph for paragraph in lists if "materialized view" in paragraph]
