"""Modules beside the definitions belong to one project and one session (no Spark needed)."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from pyspark import cloudpickle

from mooring.spark.definitions.project_modules import ProjectModules


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        file = folder / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def run(modules: ProjectModules, code: str) -> ModuleType:
    """As a definition file is run."""
    made = ModuleType("definitions")
    modules.give_imports(made)
    with modules.installed():
        exec(compile(code, "definitions.py", "exec"), made.__dict__)  # noqa: S102
    return made


def test_two_projects_and_two_sessions_each_have_their_own_module(tmp_path: Path) -> None:
    one = write(tmp_path / "one", shared="WHO = ['one']")
    two = write(tmp_path / "two", shared="WHO = ['two']")
    first, again = ProjectModules(one, [one]), ProjectModules(one, [one])
    found = [run(modules, "import shared").shared for modules in (first, again, ProjectModules(two, [two]))]
    assert [module.WHO for module in found] == [["one"], ["one"], ["two"]]
    assert found[0] is not found[1]
    assert "shared" not in sys.modules
    assert str(one) not in sys.path


def test_a_function_that_imports_when_it_is_called_finds_the_module_of_its_session(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        shared="def inner():\n    import parts.deep\n    return parts.deep.WHO",
        parts__deep="WHO = []",
    )
    code = "def flow():\n    import shared\n    return shared.inner()"
    first, other = (run(ProjectModules(folder, [folder]), code) for _ in range(2))
    assert first.flow() is first.flow()
    assert first.flow() is not other.flow()


def test_an_edited_module_is_loaded_anew_for_the_next_session(tmp_path: Path) -> None:
    write(tmp_path, shared="N = 1")
    assert run(ProjectModules(tmp_path, [tmp_path]), "import shared").shared.N == 1
    write(tmp_path, shared="N = 22")
    assert run(ProjectModules(tmp_path, [tmp_path]), "import shared").shared.N == 22


def test_a_folder_that_a_definition_puts_on_the_path_holds_for_its_project_alone(tmp_path: Path) -> None:
    project, lib = tmp_path / "project", write(tmp_path / "lib", common_parts="N = 3")
    code = f"import sys\nsys.path.insert(0, {str(lib)!r})\nimport common_parts"
    assert run(ProjectModules(project, [project]), code).common_parts.N == 3
    assert str(lib) not in sys.path
    assert "common_parts" not in sys.modules


def test_functions_of_such_a_module_are_sent_by_value(tmp_path: Path) -> None:
    folder = write(
        tmp_path, shared="def twice(n):\n    return times(n, 2)\ndef times(n, k):\n    return n * k"
    )
    twice = run(ProjectModules(folder, [folder]), "from shared import twice").twice
    assert b"times" in (sent := cloudpickle.dumps(twice))
    assert cloudpickle.loads(sent)(4) == 8


def test_installed_packages_stay_even_inside_the_project(tmp_path: Path) -> None:
    packages = write(tmp_path / ".venv" / "site-packages", some_package="N = 1")
    code = f"import sys\nsys.path.append({str(packages)!r})\nimport some_package"
    try:
        run(ProjectModules(tmp_path, [tmp_path]), code)
        assert "some_package" in sys.modules
    finally:
        sys.modules.pop("some_package", None)
