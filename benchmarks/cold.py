"""How long a READY node waits when no drain is alive: `QTG_HOME=... python -m benchmarks.cold [--rounds N]`.

Needs a sandbox started with `MG_DRAIN_LINGER_SECONDS=3 QTG_HOME=... qtg up`. Each round waits until no dispatch drain
holds its slot, approves a chain transfer, and takes the time from the approval's commit to the commit of the intent,
which is the last thing before the provider is called; both times are the database's.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics

from qtg_dagster.composition import Platform, open_platform
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.requests import approve_movement, create_movement
from qtg_dagster.host.environment import machine_settings
from qtg_dagster.store.slots import slot_state
from qtg_dagster.store.views import read_movement


async def one_round(platform: Platform) -> float:
    """Seconds from READY to the intent, with a drain launched in between."""
    network_class = platform.settings.network_class
    while (await slot_state(platform.database, "dispatch", network_class)).held:
        await asyncio.sleep(0.5)
    order = MovementOrder(template_key="chain_transfer_usdc", parameters={"amount": "1"}, requested_by="bench")
    receipt = await create_movement(platform.engine, order)
    await approve_movement(platform.engine, receipt.request_id, actor="bench approver")
    while True:
        async with platform.database.transaction() as transaction:
            movement = await read_movement(transaction, network_class, receipt.request_id)
        started = movement.node("transfer").started_at
        if started is not None and movement.approved_at is not None:
            return (started - movement.approved_at).total_seconds()
        await asyncio.sleep(0.2)


async def main(rounds: int) -> None:
    async with open_platform(machine_settings(), pool_size=2) as platform:
        waits = [await one_round(platform) for _ in range(rounds)]
    print("cold READY to intent, seconds:", " ".join(f"{wait:.1f}" for wait in waits))
    print(f"median {statistics.median(waits):.1f}, max {max(waits):.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(main(parser.parse_args().rounds))
