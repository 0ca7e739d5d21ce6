"""The function that gives database roles their rights; see `store/roles.py`."""

from __future__ import annotations

from sqlalchemy import DDL, event

from qtg_dagster.store.roles import GRANT_ROLES
from qtg_dagster.store.schema.base import metadata

_DDL: DDL = DDL(GRANT_ROLES.replace("%", "%%"))  # type: ignore[no-untyped-call]
event.listen(metadata, "after_create", _DDL)
