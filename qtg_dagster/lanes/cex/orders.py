"""From a node's config to a withdrawal in the venue's names. Pure, and the same every time for one attempt."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError, field_validator

from qtg_dagster.domain.amounts import Amount, plain_decimal
from qtg_dagster.domain.chains import ChainId, evm_address
from qtg_dagster.domain.contract import ExecutionContext
from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.lanes.cex.accounts import VenueAccount, VenueAccounts
from qtg_dagster.lanes.cex.venue import Order

#: What a plan writes as `memo` to say outright that the destination needs none.
NO_MEMO = "no-memo"
Config = TypeVar("Config", bound=BaseModel)


class WithdrawalConfig(Frozen):
    """The config of a withdrawal node. `max_fee` is in the asset that is withdrawn."""

    venue: str
    asset: str
    chain: str
    amount: str
    destination: str
    memo: str | None = None
    max_fee: str | None = None

    @field_validator("amount", "max_fee", mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        return plain_decimal(value) if isinstance(value, Decimal) else value


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A withdrawal that is to be made, ours (`config`, `amount`) and the venue's (`order`)."""

    account: VenueAccount
    config: WithdrawalConfig
    amount: Amount
    order: Order
    memo_waived: bool


def read_config(shape: type[Config], context: ExecutionContext) -> Config:
    """The node's config in its shape; raises `InvalidInput` naming the first wrong field."""
    try:
        return shape.model_validate(context.node_config)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in ("config", *first["loc"]))
        raise InvalidInput(field, str(first["msg"]), "Correct the template's node.") from None


def withdrawal_of(context: ExecutionContext, accounts: VenueAccounts) -> Withdrawal:
    """What this attempt withdraws; raises `InvalidInput` for anything that the inventory cannot name."""
    config = read_config(WithdrawalConfig, context)
    account = accounts.account(config.venue)
    asset = accounts.inventory.asset(config.asset, field="config.asset")
    amount = Amount.parse(asset, config.amount, field="config.amount")
    if amount.base_units <= 0:
        raise InvalidInput("config.amount", f"{amount} is not positive", "Give an amount above zero.")
    if ChainId(config.chain).namespace == "eip155":
        evm_address(config.destination, field="config.destination")
    waived = config.memo == NO_MEMO
    order = Order(
        coin=account.coin(config.asset),
        network=account.network(config.chain),
        address=config.destination,
        memo=None if waived else config.memo,
        amount=amount.to_text(),
        client_id=account.venue.client_id(context.idempotency_key),
        max_fee=config.max_fee if account.venue.takes_fee_ceiling else None,
    )
    return Withdrawal(account, config, amount, order, waived)
