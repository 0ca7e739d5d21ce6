"""Templates and their versions in the database."""

from __future__ import annotations

from sqlalchemy import func, insert, select, text

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import Plan, graph_hash
from qtg_dagster.domain.requests import Publisher, StoredPlan
from qtg_dagster.store.audit import audit
from qtg_dagster.store.database import InTransaction
from qtg_dagster.store.plan_documents import parse_plan, stored_plan
from qtg_dagster.store.schema.plans import (
    movement_plan_edges,
    movement_plan_nodes,
    movement_plan_versions,
    movement_templates,
)
from qtg_dagster.store.statements import statement

_TEMPLATE_ID = text("""
    INSERT INTO qtg.movement_templates (template_key) VALUES (:template_key)
    ON CONFLICT (template_key) DO UPDATE SET template_key = excluded.template_key
    RETURNING id
""")
_ANY_VERSION = text("""
    SELECT d.plan FROM qtg.plan_documents d
    JOIN qtg.movement_plan_versions v ON v.id = d.plan_version_id
    JOIN qtg.movement_templates t ON t.id = v.template_id
    WHERE t.template_key = :template_key AND v.version = :version
""")


class PlanVersions(InTransaction):
    """Templates and their versions."""

    async def find_plan(self, template_key: str, version: int | None = None) -> StoredPlan | None:
        """The given version of a template, or its newest; None when there is none in use."""
        asked = {"template_key": template_key, "version": version}
        row = (await self._tx.execute(statement("find_plan"), asked)).mappings().one_or_none()
        return None if row is None else stored_plan(dict(row))

    async def require_plan(self, template_key: str, version: int | None = None) -> StoredPlan:
        """Like `find_plan`; raises `InvalidInput` naming the templates there are."""
        stored = await self.find_plan(template_key, version)
        if stored is None:
            known = ", ".join(await self.template_keys()) or "none yet"
            which = template_key if version is None else f"{template_key} version {version}"
            raise InvalidInput("template_key", f"there is no template {which!r}", f"Use one of: {known}.")
        return stored

    async def template_keys(self) -> list[str]:
        """All template keys, sorted."""
        rows = await self._tx.execute(
            select(movement_templates.c.template_key).order_by(movement_templates.c.template_key)
        )
        return list(rows.scalars())

    async def hold_template(self, template_key: str) -> None:
        """Let nobody else publish a version of this template until the transaction ends."""
        await self._tx.execute(
            text("SELECT pg_advisory_xact_lock(hashtextextended('template:' || :key, 515447))"), {"key": template_key}
        )

    async def plan_of_version(self, template_key: str, version: int) -> Plan | None:
        """What a version says, also when it is retired."""
        asked = {"template_key": template_key, "version": version}
        document = (await self._tx.execute(_ANY_VERSION, asked)).scalar_one_or_none()
        return None if document is None else parse_plan(document)

    async def publish_plan(self, plan: Plan, *, by: Publisher | None = None) -> StoredPlan:
        """Store a plan as its template's newest version; the same plan again is the version that stands.

        A new version is audited as published by somebody, unless the caller's own entry says who did it.
        """
        await self.hold_template(plan.template_key)
        newest = await self.find_plan(plan.template_key)
        if newest is not None and newest.plan.whole_text == plan.whole_text:  # 1 and True are equal, and not the same
            return newest
        template_id = (await self._tx.execute(_TEMPLATE_ID, {"template_key": plan.template_key})).scalar_one()
        taken = select(func.max(movement_plan_versions.c.version)).where(
            movement_plan_versions.c.template_id == template_id
        )
        version = ((await self._tx.execute(taken)).scalar_one() or 0) + 1
        await self._insert_version(template_id, version, plan)
        if by is not None:
            await audit(
                self._tx,
                network_class=by.network_class,
                actor=by.actor,
                action="publish_template",
                subject_type="template",
                subject_id=plan.template_key,
                details={"version": version, "graph_hash": graph_hash(plan), "title": plan.title},
            )
        return await self.require_plan(plan.template_key)

    async def _insert_version(self, template_id: int, version: int, plan: Plan) -> None:
        document = plan.model_dump(mode="json")
        header = insert(movement_plan_versions).returning(movement_plan_versions.c.id)
        values = {
            "template_id": template_id,
            "version": version,
            "title": plan.title,
            "description": plan.description,
            "graph_hash": graph_hash(plan),
            "parameters": document["parameters"],
            "risk_controls": document["risk_controls"],
            "approval": document["approval"],
        }
        version_id = (await self._tx.execute(header.values(values))).scalar_one()
        which = {"plan_version_id": version_id}
        nodes = [{**which, "position": place, **node} for place, node in enumerate(document["nodes"])]
        await self._tx.execute(insert(movement_plan_nodes).values(nodes))
        edges = [{**which, **edge} for edge in document["edges"]]
        if edges:
            await self._tx.execute(insert(movement_plan_edges).values(edges))
