"""The published schemas are those of the models, and say what the reader insists on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qtg_dagster.domain.contract import PROTOCOL_VERSION
from qtg_dagster.executors.remote.schemas import FOLDER, schema_files, write_schemas


def test_the_published_schemas_are_current() -> None:
    """When this fails: `python -m qtg_dagster.executors.remote.schemas`."""
    assert {file.name: file.read_text() for file in FOLDER.iterdir()} == schema_files()


def test_writing_them_writes_all(tmp_path: Path) -> None:
    write_schemas(tmp_path / "new")
    assert {file.name for file in (tmp_path / "new").iterdir()} == set(schema_files())


@pytest.mark.parametrize("name", sorted(schema_files()))
def test_every_document_names_its_version_and_refuses_strangers(name: str) -> None:
    schema = json.loads(schema_files()[name])
    assert "protocol_version" in schema["required"]
    assert schema["properties"]["protocol_version"]["const"] == PROTOCOL_VERSION
    assert schema["additionalProperties"] is False
