"""Velocity limits: debited by the database in the commit of the intent, whoever writes it.

A departure in the ledger is what counts, and its return gives back. A network class's limits are locked meanwhile, all
and in one order: no two movements spend the same part of one, and no two intents wait for each other.
"""

from __future__ import annotations

from sqlalchemy import DDL, CheckConstraint, Column, Date, Numeric, PrimaryKeyConstraint, SmallInteger, Table, event

from qtg_dagster.domain.velocity import OVER_THE_LIMIT
from qtg_dagster.store.schema.base import metadata, not_empty, timestamp, words

velocity_limits = Table(
    "velocity_limits",
    metadata,
    words("network_class"),
    words("asset"),
    Column("decimals", SmallInteger, nullable=False),
    Column("daily_units", Numeric(78, 0), nullable=False),
    words("set_by"),
    words("reason"),
    timestamp("set_at", now=True),
    PrimaryKeyConstraint("network_class", "asset"),
    not_empty("network_class"),
    not_empty("asset"),
    not_empty("set_by"),
    CheckConstraint("daily_units >= 0", name="not_negative"),
)

velocity_spends = Table(
    "velocity_spends",
    metadata,
    words("network_class"),
    words("asset"),
    Column("day", Date, nullable=False),
    Column("units", Numeric(78, 0), nullable=False),
    PrimaryKeyConstraint("network_class", "asset", "day"),
    CheckConstraint("units >= 0", name="not_negative"),
)

SPEND = f"""CREATE OR REPLACE FUNCTION qtg.spend_velocity() RETURNS trigger LANGUAGE plpgsql AS $spend$
DECLARE
    class text;
    allowed numeric;
    spent numeric;
    unit numeric;
BEGIN
    SELECT network_class INTO class FROM qtg.movement_requests WHERE id = NEW.request_id;
    PERFORM FROM qtg.velocity_limits WHERE network_class = class ORDER BY asset FOR UPDATE;
    SELECT daily_units, ('1e-' || decimals)::numeric INTO allowed, unit FROM qtg.velocity_limits
    WHERE network_class = class AND asset = NEW.asset;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF NEW.entry_kind = 'return' THEN
        UPDATE qtg.velocity_spends v SET units = greatest(0, v.units - NEW.base_units)
        FROM qtg.ledger_lines gone
        WHERE gone.request_node_id = NEW.request_node_id AND gone.attempt_no = NEW.attempt_no
          AND gone.entry_kind = 'departure' AND v.network_class = class AND v.asset = NEW.asset
          AND v.day = (gone.posted_at AT TIME ZONE 'UTC')::date;
        RETURN NULL;
    END IF;
    INSERT INTO qtg.velocity_spends AS v (network_class, asset, day, units)
    VALUES (class, NEW.asset, (NEW.posted_at AT TIME ZONE 'UTC')::date, NEW.base_units)
    ON CONFLICT (network_class, asset, day) DO UPDATE SET units = v.units + excluded.units
    RETURNING units INTO spent;
    -- What was adopted has left already: it counts, and there is nothing to refuse.
    IF spent > allowed AND current_setting('qtg.adopting', true) IS DISTINCT FROM 'yes' THEN
        RAISE EXCEPTION '% % would make it % today, over the limit of %', trim_scale(NEW.base_units * unit), NEW.asset,
            trim_scale(spent * unit), trim_scale(allowed * unit)
            USING ERRCODE = '{OVER_THE_LIMIT}';
    END IF;
    RETURN NULL;
END
$spend$"""  # noqa: S608 - our own constant

ON_LINE = """CREATE TRIGGER spend_velocity AFTER INSERT ON qtg.ledger_lines
FOR EACH ROW WHEN (NEW.entry_kind IN ('departure', 'return')) EXECUTE FUNCTION qtg.spend_velocity()"""

STATEMENTS = (SPEND, ON_LINE)

for _statement in STATEMENTS:
    _ddl: DDL = DDL(_statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _ddl)
