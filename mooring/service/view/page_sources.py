"""The page's own files, for the service that gives them out and for the report that holds them."""

from __future__ import annotations

from importlib.resources import files

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def page_names() -> list[str]:
    found = (file.name for file in files("mooring.service.page").iterdir())
    return sorted(name for name in found if suffix_of(name) in TYPES)


def page_file(name: str) -> str:
    return files("mooring.service.page").joinpath(name).read_text()


def suffix_of(name: str) -> str:
    return "." + name.rpartition(".")[2]
