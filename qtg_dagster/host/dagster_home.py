"""The folder that Dagster's processes are given as DAGSTER_HOME, and the workspace they share."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.paths import project_root


def prepare_dagster_home(home: Path, code_port: int) -> Path:
    """Fill `home/dagster` with the project's dagster.yaml and a workspace of one code server; returns the workspace."""
    instance = project_root() / "dagster.yaml"
    if not instance.is_file():
        raise ConfigurationError(f"{instance} is missing; run QTG from its checkout")
    folder = home / "dagster"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # what runs print is kept below it
    shutil.copyfile(instance, folder / "dagster.yaml")
    server = {"host": "127.0.0.1", "port": code_port, "location_name": "qtg"}
    workspace = folder / "workspace.yaml"
    workspace.write_text(yaml.safe_dump({"load_from": [{"grpc_server": server}]}))
    return workspace
