"""A secret that does not print, and where it is read from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, model_validator
from pydantic_settings import NoDecode

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.domain.plans import Frozen


class Secret:
    """Text that shows itself only when asked outright."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def expose(self) -> str:
        """The text itself; call it where it is used and nowhere else."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(****)"

    __str__ = __repr__


class SecretSource(Frozen):
    """Names where a secret lives, never the secret: an environment variable or a file."""

    env: str | None = None
    file: Path | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("name exactly one of env and file")
        return self

    def read(self, what: str) -> Secret:
        """Read the secret called `what`; raises `ConfigurationError` saying where it was looked for."""
        if self.env is not None:
            text = os.environ.get(self.env, "")
            place = f"the environment variable {self.env}"
        else:
            path = Path(str(self.file))
            place = f"the file {path}"
            text = path.read_text().strip() if path.is_file() else ""
        if not text:
            raise ConfigurationError(f"{what}: {place} is missing or empty")
        return Secret(text)


def _named(place: Any) -> Any:
    if not isinstance(place, str):
        return place
    kind, colon, name = place.partition(":")
    if not colon or kind not in ("file", "env") or not name:
        raise ValueError("say where the secret is: file:PATH or env:NAME")
    return {kind: name}


#: A source as one variable names it.
PlaceOfSecret = Annotated[SecretSource, NoDecode, BeforeValidator(_named)]
