"""JSON Schemas of the protocol's documents: `python -m qtg_dagster.executors.remote.schemas` writes them anew."""

from __future__ import annotations

import json
import re
from pathlib import Path

from qtg_dagster.executors.remote.documents import DOCUMENTS

FOLDER = Path(__file__).parents[3] / "docs" / "schemas" / "executor-protocol"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_files() -> dict[str, str]:
    """File name -> text, of every document; what is accepted, so fields with a default are optional."""
    return {
        f"{_kebab(document.__name__)}.json": json.dumps(
            {"$schema": _DIALECT, **document.model_json_schema(mode="validation")}, indent=2, sort_keys=True
        )
        + "\n"
        for document in DOCUMENTS
    }


def write_schemas(folder: Path = FOLDER) -> None:
    """Write all files into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in schema_files().items():
        (folder / name).write_text(text)


def _kebab(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


if __name__ == "__main__":
    write_schemas()
