"""How QTG's own errors are shown in the web UI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from qtg_dagster.domain.errors import InvalidInput, QtgError


@contextmanager
def shown_in_the_ui() -> Iterator[None]:
    """Turn a `QtgError` into a failure that names field and fix and is not tried again."""
    try:
        yield
    except InvalidInput as refused:
        raise dg.Failure(
            description=str(refused),
            metadata={
                "error": type(refused).__name__,
                "field": refused.field,
                "problem": refused.problem,
                "fix": refused.fix,
            },
            allow_retries=False,
        ) from None
    except QtgError as refused:
        raise dg.Failure(
            description=str(refused), metadata={"error": type(refused).__name__}, allow_retries=False
        ) from None
