"""What an approver looks at before saying yes, as a job for the launchpad."""

import re

import dagster as dg
from pydantic import Field

from qtg_dagster.jobs.pictures import table
from qtg_dagster.jobs.refusals import shown_in_the_ui
from qtg_dagster.treasury.review import review_movement as read_review
from qtg_dagster.treasury.review_page import Section, sections
from resources import PlatformResource

_MARKUP = re.compile(r"[\\`*_<>\[\]!~]")


class ReviewOf(dg.Config):
    """A movement to look at."""

    request_id: str = Field(description="the movement's id, as create_movement shows it")


@dg.op(
    name="review",
    out=dg.Out(dg.Nothing),
    description="Show all that an approver should see of a movement, warnings first. Changes nothing anywhere.",
)
async def review_one(context: dg.OpExecutionContext, config: ReviewOf, platform: PlatformResource) -> None:
    with shown_in_the_ui():
        async with platform.open() as parts:
            review = await read_review(parts.engine, parts.balance_fetchers, config.request_id)
    context.add_output_metadata({section.title: shown(section) for section in sections(review)})


def shown(section: Section) -> dg.MarkdownMetadataValue:
    """A table of plain text: what people wrote into a movement is not to be read as Markdown."""
    rows = [[_MARKUP.sub(r"\\\g<0>", cell) for cell in row] for row in section.rows]
    return dg.MetadataValue.md(table(section.head, rows))


@dg.job(executor_def=dg.in_process_executor, description=review_one.description)
def review_movement() -> None:
    review_one()
