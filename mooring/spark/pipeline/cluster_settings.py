"""`ui` and a `capacity` between bounds, of a site in `mooring.yml` that is a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mooring.errors import InputError
from mooring.model.problem.reading.fields import Check, boolean, fail, name, positive, read_fields, text
from mooring.spark.sites.spark_ui import Cluster, UiConnection, check_ui

UI = "ui"
_UI: dict[str, Check] = {
    "url": text,
    "token_env": name,
    "token_file": name,
    "ca_file": name,
    "plain_text": boolean,
}
_BOUNDS: dict[str, Check] = {"least": positive, "most": positive}


def read_ui(raw: object, path: str, folder: Path) -> UiConnection:
    """An address alone, or with its token and certificates. Files are named as from `folder`."""
    if not isinstance(raw, Mapping):
        return check_ui(UiConnection(text(raw, path)), path)
    fields: dict[str, Any] = read_fields(raw, _UI, path)
    if "url" not in fields:
        fail(f"{path}.url", "the address of the driver's UI, such as http://driver:4040", None)
    for file in ("token_file", "ca_file"):
        if file in fields:
            fields[file] = str(folder.resolve() / fields[file])
    return check_ui(UiConnection(**fields), path)


def read_cluster(site: Mapping[Any, Any], path: str, folder: Path) -> tuple[dict[Any, Any], Cluster]:
    """The fields of the site without those, `capacity` as the least that it has; and those."""
    rest = {key: value for key, value in site.items() if key != UI}
    bounds = site.get("capacity")
    if "connect" not in site and ("ui" in site or isinstance(bounds, Mapping)):
        key = "ui" if "ui" in site else "capacity"
        raise InputError(
            f"found {key} of a cluster for an embedded site, which is one process",
            field=f"{path}.{key}",
            remedy="remove it, or name the cluster's Spark Connect server under `connect`",
        )
    most = None
    if isinstance(bounds, Mapping):
        fields = read_fields(bounds, _BOUNDS, f"{path}.capacity")
        for key in _BOUNDS:
            if key not in fields:
                fail(f"{path}.capacity.{key}", "a number of cores", None)
        least, most = float(str(fields["least"])), float(str(fields["most"]))
        if most < least:
            fail(f"{path}.capacity.most", f"at least {least:g}, the least", most)
        rest["capacity"] = least
    ui = read_ui(site["ui"], f"{path}.ui", folder) if site.get("ui") is not None else None
    return rest, Cluster(ui, most)
