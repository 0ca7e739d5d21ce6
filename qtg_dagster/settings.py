"""Every setting, read from the environment once; a bad value is refused at start with the variable's name."""

from __future__ import annotations

import os
from datetime import date
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from pydantic import AliasChoices, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from qtg_dagster.domain.errors import ConfigurationError, InvalidInput
from qtg_dagster.domain.receivers import ReceiverPolicy
from qtg_dagster.domain.retention import windows
from qtg_dagster.inventory import Inventory
from qtg_dagster.secret import PlaceOfSecret

_SECRET_PLACES = frozenset({"audit_checkpoint_key"})


class Settings(BaseSettings):
    """QTG's settings. Flags and intervals keep the names of the runtime reference (`MG_...`)."""

    model_config = SettingsConfigDict(env_prefix="MG_", extra="ignore", frozen=True)

    database_url: str = Field(
        default="",
        validation_alias=AliasChoices("DATABASE_URL", "database_url"),
        description="PostgreSQL to use; empty = the embedded one of `qtg up`",
    )
    signer_database_url: str = Field(
        default="", description="the signers' journal under a role of its own; empty = DATABASE_URL"
    )
    sender_database_url: str = Field(
        default="",
        description="the delivery of callbacks and audit entries under a role of its own; empty = DATABASE_URL",
    )
    retention_database_url: str = Field(
        default="", description="the deletion of what has settled under a role of its own; empty = DATABASE_URL"
    )
    inventory_file: Path | None = Field(default=None, description="YAML of assets, chains, venues, accounts, signers")
    network_class: str = Field(default="sandbox", pattern=r"^[a-z][a-z0-9_]{0,30}$")

    # Engine
    workers_enabled: bool = True
    start_paused: bool = Field(default=False, description="start nothing until an operator closes or releases it")
    node_dispatch_interval_seconds: float = Field(default=2, ge=1, le=3600)
    node_observe_interval_seconds: float = Field(default=5, ge=1, le=3600)
    node_recovery_interval_seconds: float = Field(default=60, ge=1, le=3600)
    node_recovery_batch_size: int = Field(default=10, ge=4, le=1000)
    observe_timeout_enforcement_enabled: bool = False
    approval_ttl_seconds: int = Field(default=300, ge=1, le=30 * 86400)

    # Hot drains
    drain_concurrency: int = Field(default=64, ge=1, le=1000, description="nodes worked at once by one drain")
    drain_slots: int = Field(default=1, ge=1, le=16, description="drains of one kind that may work side by side")
    drain_standby: bool = Field(default=False, description="a second drain waits for the death of the one at work")
    drain_linger_seconds: float = Field(default=45, ge=0, le=3600, description="idle time before a drain ends")
    drain_budget_seconds: float = Field(default=600, ge=5, le=86400, description="age at which a drain is succeeded")
    drain_poll_seconds: float = Field(default=1, gt=0, le=60)
    drain_stop_grace_seconds: float = Field(default=20, ge=0, le=600)
    database_pool_size: int = Field(default=10, ge=1, le=100)

    # Core group
    core_fail_fast_enabled: bool = Field(default=True, description="false = deaths are recorded and stop nobody")
    core_deaths_before_halt: int = Field(default=5, ge=1, le=1000, description="falls within the window that halt")
    core_death_window_seconds: float = Field(default=300, ge=1, le=86400)

    # Upkeep
    executor_health_interval_seconds: int = Field(default=60, ge=1, le=86400)
    evm_nonce_reaper_enabled: bool = True
    evm_nonce_reaper_interval_seconds: int = Field(default=60, ge=1, le=86400)
    evm_nonce_reservation_max_age_seconds: int = Field(default=900, ge=30, le=86400)
    evm_nonce_fill_enabled: bool = Field(
        default=False, description="let the reaper fill dead nonces by itself; an operator always can"
    )
    ccip_stranded_reaper_enabled: bool = True
    ccip_stranded_reaper_interval_seconds: int = Field(default=60, ge=1, le=86400)
    ccip_send_intent_max_age_seconds: int = Field(
        default=3600, ge=60, le=30 * 86400, description="age at which a CCIP send without a known end is stranded"
    )
    balance_snapshot_enabled: bool = False
    balance_snapshot_interval_seconds: int = Field(default=30, ge=1, le=86400)
    cex_transfer_ingest_venues_csv: str = Field(
        default="", description="venues of the inventory whose records are kept by schedule, comma-separated"
    )
    cex_transfer_ingest_interval_seconds: int = Field(
        default=120, ge=1, le=86400, description="how often is looked whether a record is to be read again"
    )
    cex_transfer_ingest_since: date = Field(
        default=date(2024, 1, 1), description="the first UTC day of venues' records that can be asked for"
    )
    capital_transfer_followup_enabled: bool = False
    capital_transfer_followup_interval_seconds: int = Field(default=60, ge=1, le=86400)
    capital_transfer_stale_seconds: int = Field(
        default=3600,
        ge=60,
        le=30 * 86400,
        description="without any progress for so long, a transfer is shown to people",
    )
    expiration_check_interval_seconds: float = Field(default=30, ge=1, le=3600)
    template_proposal_ttl_seconds: int = Field(
        default=7 * 86400, ge=1, le=90 * 86400, description="how long a proposed template version may be decided on"
    )
    template_proposal_approvals: int = Field(
        default=1, ge=1, le=20, description="how many people beside the proposer must approve a template version"
    )
    templates_by_proposal_only: bool = Field(
        default=False, description="true = a template changes by an approved proposal and in no other way"
    )
    template_proposal_expiration_interval_seconds: float = Field(default=30, ge=1, le=3600)
    retention_interval_seconds: int = Field(default=86400, ge=60, le=86400)
    retention_days: int = Field(default=30, ge=1, le=36500, description="how long what has settled is kept")
    retention_windows: str = Field(default="", description="exceptions, like `cycles=7,movements=keep`")
    retention_budget_seconds: float = Field(default=1800, ge=1, le=3000, description="after which a pass ends")
    retention_load: float = Field(default=0.1, gt=0, le=1, description="share of its time in which a pass deletes")

    # Delivery: callbacks, audit entries, notifications
    callback_dispatch_interval_seconds: float = Field(default=3, ge=0.1, le=3600)
    callback_max_attempts: int = Field(default=5, ge=1, le=100, description="then the callback is in the dlq")
    callback_concurrency: int = Field(default=64, ge=2, le=1000, description="callbacks sent at once by one drain")
    callback_concurrency_per_receiver: int = Field(default=4, ge=1, le=100)
    callback_timeout_seconds: float = Field(default=10, gt=0, le=120, description="one attempt, from name to answer")
    callback_retry_after_max_seconds: float = Field(default=900, ge=0, le=86400)
    callback_allowed_hosts: str = Field(
        default="", description="name or name:port, comma-separated: may be plain http, at any port and address"
    )
    callback_allowed_networks: str = Field(default="", description="CIDR, comma-separated: as good as public")
    callback_ports: str = Field(default="443,8443", description="where receivers may listen, comma-separated")
    callback_ca_file: Path | None = Field(default=None, description="PEM of authorities trusted beside the usual ones")
    audit_promotion_interval_seconds: float = Field(default=1, ge=0.1, le=60)
    audit_verification_interval_seconds: int = Field(default=3600, ge=60, le=86400, description="what is new, verified")
    audit_full_verification_interval_seconds: int = Field(
        default=86400, ge=3600, le=30 * 86400, description="the whole chain, verified from its first row"
    )
    audit_checkpoint_folder: Path | None = Field(
        default=None, description="where signed heads of the audit chain go; away from whoever owns the database"
    )
    audit_checkpoint_key: PlaceOfSecret | None = Field(
        default=None, description="ed25519 key that signs them, PEM: file:PATH or env:NAME"
    )
    notify_enabled: bool = False
    notify_interval_seconds: float = Field(default=10, ge=1, le=3600)
    notify_unknown_seconds: float = Field(
        default=900, ge=1, le=30 * 86400, description="how long a node may be uncertain before people hear of it"
    )
    notify_behind_seconds: float = Field(default=900, ge=1, le=30 * 86400, description="so late an outbox is behind")
    notify_breaker_seconds: float = Field(default=4 * 3600, ge=1, le=90 * 86400, description="so old a breaker is told")
    notify_settle_seconds: float = Field(default=60, ge=0, le=3600, description="gone for so long, an alert is over")
    notify_remind_seconds: float = Field(default=4 * 3600, ge=60, le=30 * 86400)
    notify_most_per_hour: int = Field(default=3, ge=1, le=60, description="times that one that flaps is told")
    notify_send_timeout_seconds: float = Field(default=20, ge=1, le=120, description="for one message to one channel")
    notify_web_url: str = Field(default="", description="where people reach the web UI, for links in messages")
    notify_runbook_url: str = Field(default="docs/notifications.md", description="the page that messages point to")

    @model_validator(mode="after")
    def _cadences_fit_cron(self) -> Self:
        for name in (
            "executor_health_interval_seconds",
            "evm_nonce_reaper_interval_seconds",
            "ccip_stranded_reaper_interval_seconds",
            "balance_snapshot_interval_seconds",
            "cex_transfer_ingest_interval_seconds",
            "capital_transfer_followup_interval_seconds",
            "retention_interval_seconds",
            "audit_verification_interval_seconds",
        ):
            seconds = getattr(self, name)
            if (seconds < 60 and 60 % seconds) or (seconds > 60 and (seconds % 60 or 86400 % seconds)):
                raise ValueError(
                    f"MG_{name.upper()}: {seconds} makes an uneven rhythm; "
                    "below 60 it must divide 60, above it must be whole minutes that divide a day"
                )
        return self

    @model_validator(mode="after")
    def _windows_are_known(self) -> Self:
        try:
            windows(self.retention_days, self.retention_windows)
        except InvalidInput as wrong:
            raise ValueError(f"MG_RETENTION_WINDOWS: {wrong.problem}. {wrong.fix}") from None
        return self

    @model_validator(mode="after")
    def _recorded_venues_are_known(self) -> Self:
        # Without a file there is no inventory yet: the sandbox writes one when it starts.
        known = self.inventory.venues if self.inventory_file and self.recorded_venues else {}
        unknown = [venue for venue in self.recorded_venues if venue not in known]
        if self.inventory_file and unknown:
            there = ", ".join(sorted(known)) or "none"
            name = "MG_CEX_TRANSFER_INGEST_VENUES_CSV"
            raise ValueError(f"{name}: no venue {unknown[0]!r} in the inventory; it has {there}")
        return self

    @property
    def recorded_venues(self) -> tuple[str, ...]:
        """Venues whose records are kept by schedule, each once."""
        named = (name.strip() for name in self.cex_transfer_ingest_venues_csv.split(","))
        return tuple(dict.fromkeys(name for name in named if name))

    @model_validator(mode="after")
    def _receivers_can_be_read(self) -> Self:
        self._policy()
        return self

    @property
    def receiver_policy(self) -> ReceiverPolicy:
        """Where callbacks may go: what these settings allow, and the hosts that the inventory names."""
        entry = self.inventory.callbacks
        return self._policy(*(entry.allowed_hosts if entry else ()))

    def _policy(self, *hosts: str) -> ReceiverPolicy:
        allowed = ",".join((self.callback_allowed_hosts, *hosts))
        try:
            return ReceiverPolicy.parse(allowed, self.callback_allowed_networks, self.callback_ports)
        except ValueError as error:
            names = "MG_CALLBACK_ALLOWED_HOSTS, MG_CALLBACK_ALLOWED_NETWORKS or MG_CALLBACK_PORTS"
            raise ValueError(f"{names}: {error}") from None

    @property
    def inventory(self) -> Inventory:
        """The inventory file's content as it is now; empty when no file is set."""
        return Inventory.load(self.inventory_file) if self.inventory_file else Inventory()

    @property
    def evm_missing(self) -> str:
        """Why nothing can be done on an EVM chain; empty when something can."""
        if find_spec("web3") is None:
            return "web3 is not installed"
        return "" if self.inventory.chains else "the inventory (MG_INVENTORY_FILE) names no chain with endpoints"


def load_settings() -> Settings:
    """Read the environment; raises `ConfigurationError` naming each variable that is wrong.

    Sensors ask at every tick: what was read is kept as long as the environment stays as it is.
    """
    return _read_settings(frozenset(os.environ.items()))


@lru_cache(maxsize=4)
def _read_settings(_environment: frozenset[tuple[str, str]]) -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        raise ConfigurationError("; ".join(_problem(item) for item in error.errors())) from None


def _problem(item: object) -> str:
    assert isinstance(item, dict)  # noqa: S101 - pydantic's ErrorDetails
    name = ".".join(str(part) for part in item["loc"])
    if not name:
        return str(item["msg"])
    variable = name if name == "DATABASE_URL" else f"MG_{name.upper()}"
    if name in _SECRET_PLACES:  # where one belongs that names a secret, somebody may have written the secret itself
        return f"{variable}: {item['msg']}"
    return f"{variable}: {item['msg']} (got {item['input']!r})"
