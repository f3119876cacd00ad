"""Modules that lie beside a project's definitions, each session with its own.

A module may hold a session (`spark = SparkSession.active()`), so it is loaded again for every session, like
the definition files; and two projects may both have a `shared.py`. So these modules stand in `sys.modules`
only while one of them is imported, and what was imported is kept here. Functions in them are sent to Spark by
value, since Spark's Python workers could not import them.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

_ONE_AT_A_TIME = threading.RLock()
"""There is one `sys.modules` and one `sys.path`."""
_INSTALLED = ("site-packages", "dist-packages")
"""Folders of packages that are not the project's own, even where its environment lies inside it."""


class ProjectModules:
    """The modules of one project, for one session."""

    def __init__(self, project: Path, folders: Sequence[Path]) -> None:
        """`folders`: where they are looked for, after everything that Python finds by itself."""
        self._project = project
        self._path = [str(folder) for folder in folders]
        self._modules: dict[str, ModuleType] = {}
        self._is_in = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """They can be imported, by this thread alone; what is imported meanwhile is kept for next time."""
        with _ONE_AT_A_TIME:
            if self._is_in:
                yield
                return
            path, wrote_bytecode = list(sys.path), sys.dont_write_bytecode
            others = {name: module for name, module in sys.modules.items() if self._is_own(name, module)}
            finder = _Finder(self)
            self._swap(others, self._modules)
            sys.path.extend(folder for folder in self._path if folder not in sys.path)
            sys.meta_path.insert(0, finder)
            sys.dont_write_bytecode, self._is_in = True, True
            try:
                yield
            finally:
                self._path = [folder for folder in sys.path if folder not in path]
                self._modules = {n: m for n, m in sys.modules.items() if self._is_own(n, m)}
                self._swap(self._modules, others)
                sys.path[:], sys.dont_write_bytecode, self._is_in = path, wrote_bytecode, False
                sys.meta_path.remove(finder)

    def give_imports(self, module: ModuleType) -> None:
        """Import statements in this module's functions find the project's modules whenever they run."""
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import}

    def owns(self, file: str) -> bool:
        """Whether the file is the project's, or lies in a folder that its definitions put on the path."""
        own = (str(self._project), *self._path)
        return any(file.startswith(f"{folder}{os.sep}") or file == folder for folder in own) and not any(
            f"{os.sep}{folder}{os.sep}" in file for folder in _INSTALLED
        )

    def _import(self, name: str, *rest: Any) -> ModuleType:
        top = name.partition(".")[0]
        level = rest[3] if len(rest) > 3 else 0
        if level == 0 and not any(_holds(folder, top) for folder in self._path):
            return builtins.__import__(name, *rest)
        with self.installed():
            return builtins.__import__(name, *rest)

    def _is_own(self, name: str, module: ModuleType) -> bool:
        if name == "__main__" or name.partition(".")[0] == "mooring":
            return False
        file = getattr(module, "__file__", None)
        if file is not None:
            return self.owns(file)
        folders = list(getattr(module, "__path__", ()))  # a folder without __init__.py
        return bool(folders) and all(self.owns(folder) for folder in folders)

    @staticmethod
    def _swap(out: dict[str, ModuleType], in_: dict[str, ModuleType]) -> None:
        for name in out:
            sys.modules.pop(name, None)
        sys.modules.update(in_)


class _Finder(MetaPathFinder):
    """Finds what Python finds, and gives the project's own modules its way to import."""

    def __init__(self, modules: ProjectModules) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        if not self._modules.owns(spec.origin):
            return None
        spec.loader = _Loader(fullname, spec.origin, self._modules)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, modules: ProjectModules) -> None:
        super().__init__(fullname, path)
        self._modules = modules

    def exec_module(self, module: ModuleType) -> None:
        self._modules.give_imports(module)
        super().exec_module(module)


def _holds(folder: str, module: str) -> bool:
    return (Path(folder) / f"{module}.py").is_file() or (Path(folder) / module).is_dir()
