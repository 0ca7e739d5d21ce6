"""A checkpoint: the head of an audit chain, to be signed and kept where the database's owner does not reach."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pydantic import Field, ValidationError

from qtg_dagster.domain.audit_chain import Head, Mark
from qtg_dagster.domain.canonical import canonical_json
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.domain.plans import Frozen

FORMAT: Final = "qtg.audit-checkpoint.v1"
_FILE_NAME = re.compile(r"([a-z][a-z0-9_]*)-([0-9]{12,})\.json")


class Checkpoint(Frozen):
    """What is signed: canonical JSON of these fields, behind the format's name and a newline."""

    format: Literal["qtg.audit-checkpoint.v1"] = FORMAT
    network_class: str
    sequence: int = Field(ge=1)
    row_hash: str = Field(pattern=r"^[0-9a-f]{64}$")
    at: str = Field(description="the database's time, UTC")

    @classmethod
    def of(cls, network_class: str, head: Head, at: datetime) -> Checkpoint:
        when = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return cls(network_class=network_class, sequence=head.sequence, row_hash=head.row_hash, at=when)

    @property
    def head(self) -> Head:
        return Head(self.sequence, self.row_hash)

    @property
    def file_name(self) -> str:
        """One row of one chain has one name: what is there already is never written over."""
        return f"{self.network_class}-{self.sequence:012d}.json"

    def signed_bytes(self) -> bytes:
        return canonical_json(self.model_dump()).encode()

    def mark(self) -> Mark:
        return Mark(self.head, f"the checkpoint of {self.at}")


class SignedCheckpoint(Checkpoint):
    """A checkpoint file's content."""

    public_key: str = Field(pattern=r"^[0-9a-f]{64}$", description="whose signature it claims to have; proves nothing")
    signature: str = Field(pattern=r"^[0-9a-f]{128}$")

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(**self.model_dump(exclude={"public_key", "signature"}))

    def file_bytes(self) -> bytes:
        return (json.dumps(self.model_dump(), indent=1) + "\n").encode()


def parse_checkpoint(content: bytes, what: str) -> SignedCheckpoint:
    """A checkpoint file's content; raises `ConfigurationError` naming what is wrong."""
    try:
        return SignedCheckpoint.model_validate_json(content)
    except ValidationError as error:
        found: list[Any] = error.errors(include_url=False, include_context=False, include_input=False)
        wrong = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}" for each in found)
        raise ConfigurationError(f"{what}: no checkpoint of an audit chain ({wrong})") from None


def named_in(file_name: str) -> tuple[str, int] | None:
    """(network class, sequence) of a checkpoint's file name; None for other files."""
    found = _FILE_NAME.fullmatch(file_name)
    return (found[1], int(found[2])) if found else None
