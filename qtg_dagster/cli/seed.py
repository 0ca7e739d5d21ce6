"""`qtg seed`."""

from __future__ import annotations

import asyncio

import click


@click.command("seed")
def seed() -> None:
    """Write the rows that must stand before the first work; in a sandbox, its sample templates too.

    Fails when a template in use has an action that nobody does. `qtg up` runs this by itself.
    """
    from qtg_dagster.composition import open_platform
    from qtg_dagster.domain.errors import ConfigurationError
    from qtg_dagster.engine.templates import install_template
    from qtg_dagster.host.environment import machine_settings
    from qtg_dagster.sandbox.plans import is_sandbox, sample_plans
    from qtg_dagster.upkeep.seeding import seed as seed_rows
    from qtg_dagster.upkeep.startup import check_templates

    async def work() -> list[str]:
        settings = machine_settings()
        async with open_platform(settings, pool_size=2) as platform:
            await seed_rows(platform.engine)
            if is_sandbox(settings.inventory):
                for plan in sample_plans(settings.inventory):
                    await install_template(platform.engine, plan, actor="qtg seed")
            return await check_templates(platform.engine)

    problems = asyncio.run(work())
    if problems:
        raise ConfigurationError("\n".join(problems))
