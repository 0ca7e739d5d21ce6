"""DBOS Transact as documented: a step a move; a launch recovers what was pending, the rest is started by its id."""

from __future__ import annotations

import asyncio
import sys

from dbos import DBOS, DBOSConfig, SetWorkflowID

from benchmarks.kill.wire import IN_FLIGHT, MOVEMENTS, STEPS, ask


@DBOS.step()
async def move(unit: str) -> str:
    return await ask(sys.argv[3], "move", unit, unit)


@DBOS.workflow()
async def movement(number: int) -> str:
    for place in range(STEPS):
        await move(f"{number}:{place}")
    return "completed"


async def work() -> None:
    # Known first: what the killed worker's session still commits in between is then pending, or started by its id.
    known = {one.workflow_id for one in await DBOS.list_workflows_async(load_input=False, load_output=False)}
    pending = await DBOS.list_workflows_async(status="PENDING", load_input=False, load_output=False)
    todo = iter([number for number in range(MOVEMENTS) if f"movement-{number}" not in known])

    async def in_flight() -> None:
        for number in todo:
            with SetWorkflowID(f"movement-{number}"):
                handle = await DBOS.start_workflow_async(movement, number)
            await handle.get_result()

    async def recovered(workflow_id: str) -> None:
        handle = await DBOS.retrieve_workflow_async(workflow_id)
        await handle.get_result(polling_interval_sec=0.1)

    await asyncio.gather(*(recovered(one.workflow_id) for one in pending), *(in_flight() for _ in range(IN_FLIGHT)))


def main(verb: str, url: str) -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url,
        "log_level": "CRITICAL",
        "application_version": "bench",
        "executor_id": "bench",
    }
    DBOS(config=config)
    DBOS.launch()
    if verb == "work":
        asyncio.run(work())
    DBOS.destroy()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
