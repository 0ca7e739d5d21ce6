"""What all tables share: schema, constraint names, column kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Column, DateTime, Identity, MetaData, Text, text
from sqlalchemy.dialects.postgresql import JSONB, UUID

SCHEMA = "qtg"

metadata = MetaData(
    schema=SCHEMA,
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    },
)


def uuid_key() -> Column[Any]:
    """A random UUID primary key."""
    return Column("id", UUID(as_uuid=False), primary_key=True, server_default=text("gen_random_uuid()"))


def serial_key() -> Column[Any]:
    """An ascending primary key that the writer may also choose beforehand."""
    return Column("id", BigInteger, Identity(always=False), primary_key=True)


def timestamp(name: str, *, now: bool = False) -> Column[Any]:
    """An aware timestamp; with `now`, set by the database and never null."""
    default = text("now()") if now else None
    return Column(name, DateTime(timezone=True), nullable=not now, server_default=default)


def words(name: str, *, nullable: bool = False) -> Column[Any]:
    """Text."""
    return Column(name, Text, nullable=nullable)


def document(name: str, *, nullable: bool = False, default: str | None = "{}") -> Column[Any]:
    """A JSON document."""
    server_default = text(f"'{default}'::jsonb") if default is not None else None
    return Column(name, JSONB, nullable=nullable, server_default=server_default)


def one_of(column: str, values: Iterable[str]) -> CheckConstraint:
    """Allow only `values` in `column`."""
    allowed = ", ".join(f"'{value}'" for value in sorted(values))
    return CheckConstraint(f"{column} IN ({allowed})", name=column)


def not_empty(column: str) -> CheckConstraint:
    """Refuse the empty string where an identity is stored."""
    return CheckConstraint(f"{column} <> ''", name=f"{column}_not_empty")
