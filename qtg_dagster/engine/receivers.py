"""Whether a movement's owner can be called where the order says, found out before anything is stored."""

from __future__ import annotations

import asyncio

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.receivers import FIELD
from qtg_dagster.engine.parts import Engine

_PATIENCE_SECONDS = 2.0


async def check_receiver(engine: Engine, url: str) -> None:
    """Look the receiver's name up and judge where it leads; raises `InvalidInput`, also when it leads nowhere.

    Takes two seconds at most, and belongs outside any transaction. Delivery judges again, at every connection.
    """
    policy = engine.settings.receiver_policy
    receiver = policy.read(url)
    if engine.resolver is None or receiver.address is not None or policy.trusts(receiver):
        return
    fix = "Check the name, or order again."
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            found = await engine.resolver.addresses(receiver.host, receiver.port)
    except TimeoutError:
        problem = f"{receiver.host} was not resolved within {_PATIENCE_SECONDS:g} s"
        raise InvalidInput(FIELD, problem, fix) from None
    except OSError as error:
        raise InvalidInput(FIELD, f"{receiver.host} cannot be resolved: {error}", fix) from None
    policy.check_addresses(receiver, found)
