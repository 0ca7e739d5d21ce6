"""PostgreSQL as a resource."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import dagster as dg
from pydantic import Field

from qtg_dagster.store.database import Database
from resources.lookout import lookout_for
from resources.settings import SettingsResource

T = TypeVar("T")


class DatabaseResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The database that owns the truth. Its URL comes from the environment and is never part of run config."""

    settings: SettingsResource
    pool_size: int | None = Field(
        default=None, ge=1, le=100, description="connections a process; null = MG_DATABASE_POOL_SIZE"
    )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Database]:
        """A pool for the running event loop, closed at the end of the block."""
        settings = self.settings.read()
        database = Database(settings.database_url, pool_size=self.pool_size or settings.database_pool_size)
        try:
            yield database
        finally:
            await database.close()

    def read(self, question: Callable[[Database], Awaitable[T]]) -> T:
        """The answer to a short question, asked from a thread without an event loop, such as a sensor's.

        Raises what the question raises, and `TimeoutError` when it takes too long.
        """
        return lookout_for(self.settings.read().database_url).read(question)
