"""Policies and deciders of users' own: classes in Python modules, named as `my_module:MyPolicy`.

To import a module is to run it. So a module is named on a command line or in Python only; files, REST and the
page give names of the catalogue.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from mooring.errors import InputError, MooringError, described
from mooring.model.problem.reading.fields import refuse_reference

SEPARATOR = ":"
_MEMBERS = {"a policy": ("name", "about", "unsupported", "place"), "a decider": ("name", "decide")}
"""What an object has to have, by what it is to be."""


def names_module(name: str) -> bool:
    return SEPARATOR in name


def refuse_module(name: str, field: str, what: str) -> None:
    """Where only names of the catalogue are allowed."""
    if names_module(name):
        raise InputError(
            f"found the Python module {name[:80]!r}, expected the name of {what}",
            field=field,
            remedy="only a command line or Python may name a module, because to import it is to run it",
        )


def own_class(name: str, field: str) -> type[Any]:
    """The class that `my_module:MyPolicy` names."""
    module_name, _, class_name = name.partition(SEPARATOR)
    parts = [*module_name.split("."), class_name]
    if not all(part.isidentifier() for part in parts) or module_name.endswith(".py"):
        raise InputError(
            f"found {name!r}, expected MODULE:NAME, such as my_module:MyClass (no path, no .py)", field=field
        )
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as failure:
        if isinstance(failure, ModuleNotFoundError) and f"{module_name}.".startswith(f"{failure.name}."):
            raise InputError(
                f"found no Python module {failure.name!r}",
                field=field,
                remedy=f"modules are found in the current folder ({Path.cwd()}), in the folders of "
                "PYTHONPATH and among installed packages",
            ) from None
        raise InputError(
            f"the module {module_name!r} cannot be imported: {described(failure)}",
            field=field,
            remedy=f"`{Path(sys.executable).name} -c 'import {module_name}'` shows the whole traceback",
        ) from failure
    if not hasattr(module, class_name):
        known = [
            each for each, value in vars(module).items() if getattr(value, "__module__", None) == module_name
        ]
        place = getattr(module, "__file__", None) or "no file"
        refuse_reference(class_name, known, field, f"a class of the module {module_name!r} ({place})")
    found = getattr(module, class_name)
    if not isinstance(found, type):
        raise InputError(f"found {name}, which is no class but a {type(found).__name__}", field=field)
    return found


def made_of(kind: type[Any], values: Mapping[str, object], name: str, field: str) -> Any:
    """An object of a user's class, with its settings."""
    missing = [
        each.name
        for each in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ())
        if each.init
        and each.default is dataclasses.MISSING
        and each.default_factory is dataclasses.MISSING
        and each.name not in values
    ]
    if missing:
        raise InputError(
            f"{name} has no default for its setting {missing[0]!r}",
            field=field,
            remedy=f"set it ({missing[0]}=VALUE), or give the field a default",
        )
    try:
        return kind(**values)
    except MooringError:
        raise
    except Exception as failure:
        raise InputError(f"{name} cannot be made: {described(failure)}", field=field) from failure


def require_kind(made: object, what: str, name: str, field: str) -> None:
    """`what`: a policy, or a decider."""
    if isinstance(made, type):
        raise InputError(
            f"found the class {name}, expected an object of it", field=field, remedy=f"give {name}()"
        )
    lacks = [member for member in _MEMBERS[what] if not hasattr(made, member)]
    if lacks:
        raise InputError(
            f"{name} is not {what}: it lacks {', '.join(lacks)}",
            field=field,
            remedy=(
                f"{what} has {', '.join(_MEMBERS[what])}; "
                f"`mooring example own_{what.split()[-1]}.py` copies one"
            ),
        )
    if what == "a policy":
        _require_subject(getattr(made, "about", None), name, field)


def _require_subject(about: object, name: str, field: str) -> None:
    from mooring.model.evaluation.explanation import Subject  # loads what names alone do not need

    if about not in get_args(Subject):
        raise InputError(
            f"{name} is about {about!r}, expected one of {', '.join(map(repr, get_args(Subject)))}",
            field=f"{field}.about",
            remedy="`about` states by which of them its plans are judged",
        )
