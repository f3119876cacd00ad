"""Every example in the documents and docstrings runs, and documents lead to each other.

In a document, a yaml block that begins with `# problem` is a problem file (`# problem: NAME` also gives it a
name), a csv block lies beside it under the name after `csv`, and prompts (`>>>`) are run in that folder. Its
python blocks without prompts are one program.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import runpy
from pathlib import Path

import pytest

from mooring.algorithms.catalogue import DECIDERS, POLICIES
from mooring.chunks.files import chunk_file
from mooring.cli.main import VERBS
from mooring.model.problem import matrices, schema, surroundings
from mooring.model.problem.changes import read_changes
from mooring.model.problem.problem import Problem
from mooring.model.problem.reading.yaml12 import parse_yaml

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DOCUMENTS = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LINKING = [*DOCUMENTS, *(ROOT / name for name in ("CONTRIBUTING.md", "RELEASING.md", "CHANGELOG.md"))]
SOURCES = [path for path in sorted((ROOT / "mooring").rglob("*.py")) if ">>> " in path.read_text()]
CURRENT = [document for document in LINKING if document.parent.name != "decisions"]
"""A decision names files as they were called when it was taken."""
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w+)[ \t]*(\S*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(document: Path) -> list[tuple[str, str, str]]:
    """(language, name after it, content) of every block."""
    return BLOCK.findall(document.read_text())


def problem_files(document: Path) -> dict[str, str]:
    found = {}
    for number, (language, _, content) in enumerate(blocks(document), start=1):
        first = content.split("\n", 1)[0]
        if language in ("yaml", "yml") and re.fullmatch(r"# problem(: \S+)?", first):
            found[first.removeprefix("# problem").removeprefix(": ") or f"block{number}.yaml"] = content
    return found


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with the files that a document shows."""
    document: Path = request.getfixturevalue("document")
    for language, name, content in blocks(document):
        if language == "csv" and name:
            (tmp_path / name).write_text(content)
    for name, content in problem_files(document).items():
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_problem_files_of_a_document_load(document: Path, folder: Path) -> None:
    for name in problem_files(document):
        assert Problem.load(folder / name).operators


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_prompts_of_a_document_print_what_they_show(
    document: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    examples = "\n".join(content for _, _, content in blocks(document) if ">>> " in content)
    test = doctest.DocTestParser().get_doctest(examples, {}, document.name, str(document), 0)
    complaints: list[str] = []
    results = doctest.DocTestRunner().run(test, out=complaints.append)
    assert results.failed == 0, "".join(complaints)
    assert results.attempted == len(re.findall(r"^>>> ", examples, re.MULTILINE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_programs_of_a_document_run(
    document: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    programs = [
        content for language, _, content in blocks(document) if language == "python" and ">>> " not in content
    ]
    exec(compile("\n".join(programs), str(document), "exec"), {"__name__": document.stem})  # noqa: S102


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_of_a_docstring_hold(source: Path) -> None:
    if source.is_relative_to(ROOT / "mooring" / "spark"):
        pytest.importorskip("pyspark", reason="the `spark` extra is not installed")
    name = ".".join(source.relative_to(ROOT).with_suffix("").parts)
    results = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert results.attempted > 0
    assert results.failed == 0


def test_the_document_of_problem_files_names_every_field() -> None:
    text = (ROOT / "docs" / "problem-files.md").read_text()
    tables = (
        schema._SECTIONS,
        surroundings.SITE_FIELDS,
        surroundings.CONNECT_FIELDS,
        surroundings.STREAM_FIELDS,
        schema.OPERATOR_FIELDS,
        schema.QUERY_FIELDS,
        matrices._NETWORK,
        read_changes.CHANGE_FIELDS,
    )
    assert not [field for table in tables for field in table if f"`{field}`" not in text]


def test_the_document_of_chunks_names_every_field_and_its_file_is_read() -> None:
    text = (DOCS / "chunks.md").read_text()
    tables = (
        chunk_file.FRAME_STREAM_FIELDS,
        chunk_file.FRAME_OPERATOR_FIELDS,
        chunk_file.FRAME_SITE_FIELDS,
        chunk_file.SWITCH_FIELDS,
    )
    assert not [field for fields in tables for field in fields if not re.search(rf"\b{field}\b`", text)]
    (shown,) = [content for _, _, content in blocks(DOCS / "chunks.md") if content.startswith("# chunks\n")]
    assert len(chunk_file.chunk_problem_from_data(parse_yaml(shown)).operators) == 2


def test_the_document_of_problem_files_has_examples_at_all() -> None:
    assert "pipeline.yaml" in problem_files(ROOT / "docs" / "problem-files.md")


def links(document: Path) -> list[str]:
    """What a document links to inside the repository, as written."""
    text = BLOCK.sub("", document.read_text())
    return [target for target in LINK.findall(text) if not re.match(r"[a-z]+:", target)]


def anchors(document: Path) -> set[str]:
    """Headings as a link names them."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", LINKING, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_links_of_a_document_lead_somewhere(document: Path) -> None:
    for link in links(document):
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("document", CURRENT, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_files_that_a_document_names_exist(document: Path) -> None:
    """Capitals (`PAPER/NAME.py`) and `my_verb.py` stand for names that the reader chooses."""
    named = re.findall(r"`((?:mooring|tests|lab|examples|docs)/[\w./-]+)`", document.read_text())
    chosen = re.compile(r"/(my_\w+|[A-Z]+)(\.py)?(/|$)")
    assert not [path for path in named if not chosen.search(path) and not (ROOT / path).exists()]


@pytest.mark.parametrize("document", LINKING, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_modules_that_a_document_names_exist(document: Path) -> None:
    named = re.findall(r"`(mooring(?:\.\w+)+)", document.read_text())
    files = {"mooring.yml", "mooring.yaml", "mooring.json"}
    assert not [name for name in named if name not in files and not is_known(name)]


def is_known(dotted: str) -> bool:
    """Whether a module of that name exists, or one that mentions what comes after its own."""
    parts = dotted.split(".")
    for upto in range(len(parts), 0, -1):
        folder = ROOT.joinpath(*parts[:upto])
        for file in (folder.with_suffix(".py"), folder / "__init__.py"):
            if file.is_file():
                return all(re.search(rf"\b{part}\b", file.read_text()) for part in parts[upto:])
    return False


@pytest.mark.parametrize("document", [ROOT / "README.md", *DOCS.glob("*.md")], ids=lambda path: path.name)
def test_a_quoted_table_is_in_its_record(document: Path) -> None:
    """A table below `<!-- quoted: results/NAME.md -->` has rows of that record, column by column."""
    for record, table in re.findall(r"<!-- quoted: (\S+) -->\n((?:\|.*\n)+)", document.read_text()):
        assert record in links(document), f"{record} is quoted and not linked"
        there = {cells(row) for row in (document.parent / record).read_text().splitlines()}
        assert not [row for row in table.splitlines() if cells(row) not in there], record


def cells(row: str) -> tuple[str, ...]:
    """Of a line of a table, however wide its columns are drawn."""
    return tuple(re.sub("^(:?)-+(:?)$", r"\1-\2", cell.strip()) for cell in row.strip().strip("|").split("|"))


@pytest.mark.parametrize("folder", [DOCS, *(path for path in DOCS.iterdir() if any(path.glob("*.md")))])
def test_the_map_of_a_folder_leads_to_every_document_in_it(folder: Path) -> None:
    found = {(folder / link.partition("#")[0]).resolve() for link in links(folder / "README.md")}
    missing = {*folder.glob("*.md"), *folder.glob("*/README.md")} - {folder / "README.md"} - found
    assert not missing, [path.name for path in missing]


def decision(record: Path) -> tuple[str, str, str, str]:
    """Its row of the index: the number as a link, the title, the date and the status."""
    head = re.match(r"# (\d{4}): (.+)\n\n(\d{4}-\d\d-\d\d), (.+)\n\n", record.read_text())
    assert head, f"{record.name} does not begin with its title, then date and status"
    number, title, date, status = head.groups()
    assert record.name.startswith(f"{number}-"), record.name
    by = r"replaced by \[\d{4}\]\(\d{4}-[\w-]+\.md\)"
    assert re.fullmatch(rf"accepted(, in part {by})?|{by}", status), f"{record.name}: {status}"
    return f"[{number}]({record.name})", title, date, status


def test_the_index_of_decisions_has_every_record_in_order_with_title_date_and_status() -> None:
    records = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    index = (DOCS / "decisions" / "README.md").read_text()
    listed = [cells(row) for row in index.splitlines() if row.startswith("| [")]
    assert listed == [decision(record) for record in records]


def test_the_glossary_has_every_word_once() -> None:
    rows = re.findall(r"^\| (\*\*.+?\*\*) \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    words = [word.lower() for row in rows for word in re.findall(r"\*\*(.+?)\*\*", row)]
    assert len(words) > 50
    assert not [word for word in words if words.count(word) > 1]


def test_the_readme_leads_to_every_guide() -> None:
    found = links(ROOT / "README.md")
    assert not [path.name for path in DOCS.glob("*.md") if f"docs/{path.name}" not in found]


def test_the_files_that_the_architecture_names_exist() -> None:
    """From the package's folder on, or from that of the checkout."""
    named = re.findall(r"`([a-z_]+/[a-z_/]*(?:\w\.py)?)`", (DOCS / "architecture.md").read_text())
    assert len(named) > 40
    assert not [path for path in named if not any((top / path).exists() for top in (ROOT, ROOT / "mooring"))]


def test_the_architecture_describes_every_room_and_no_other() -> None:
    """In the order in which they import one another; the folders within a room describe themselves."""
    rooms: list[str] = runpy.run_path(str(ROOT / "tests" / "test_rooms.py"))["ROOMS"]
    described = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    assert described == list(dict.fromkeys(room.split("/")[0] for room in rooms))
    package = ROOT / "mooring"
    folders = [package / room for room in rooms if (package / room).is_dir()]
    assert not [str(each) for each in folders if not ast.get_docstring(_parsed(each / "__init__.py"))]


def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text() if file.is_file() else "")


HOMELY = re.compile(
    r"\b(hears|heard of|is told|are told|whoever|whatever|as it stands|what it is for|anew|somebody)\b"
)
BARE_FRACTION = re.compile(r"(?<![\w.*/)\]}\\`])\.\d")


def literals(source: Path) -> list[tuple[int, str]]:
    """Line and text of every string with a space that is not a docstring: messages, reasons and help."""
    tree = ast.parse(source.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
        if id(node) not in docstrings
    ]


def test_messages_help_and_what_modules_say_of_themselves_use_no_homely_words() -> None:
    """See `CONTRIBUTING.md`: programs receive, report and request."""
    sources = sorted((ROOT / "mooring").rglob("*.py"))
    said = [
        (source, line, text)
        for source in sources
        for line, text in [*literals(source), (1, ast.get_docstring(_parsed(source)) or "")]
    ]
    assert not [f"{source.relative_to(ROOT)}:{line}" for source, line, text in said if HOMELY.search(text)]


def test_messages_and_help_name_no_page_that_a_wheel_lacks() -> None:
    sources = sorted((ROOT / "mooring").rglob("*.py"))
    assert not [
        f"{source.relative_to(ROOT)}:{line}: {text}"
        for source in sources
        for line, text in literals(source)
        if re.search(r"\bdocs/|CONTRIBUTING|README", text)
    ]


def test_guides_use_no_homely_words_and_write_fractions_with_a_zero() -> None:
    prose = {path: BLOCK.sub("", path.read_text()) for path in (ROOT / "README.md", *DOCS.glob("*.md"))}
    assert not [
        f"{path.name}: {line}"
        for path, text in prose.items()
        for line in text.splitlines()
        if HOMELY.search(line) or BARE_FRACTION.search(line)
    ]


def test_the_document_of_the_command_line_names_every_verb() -> None:
    listed, _, _ = (DOCS / "command-line.md").read_text().partition("## ")
    assert re.findall(r"^\| `(\w+)", listed, re.MULTILINE) == list(VERBS)


def test_the_document_of_adapting_names_every_decider() -> None:
    text = (DOCS / "adapting.md").read_text()
    assert not [name for name in DECIDERS if f"`{name}`" not in text]


def test_the_document_of_policies_names_every_policy() -> None:
    text = (DOCS / "policies.md").read_text()
    assert not [name for name in POLICIES if f"`{name}`" not in text]
