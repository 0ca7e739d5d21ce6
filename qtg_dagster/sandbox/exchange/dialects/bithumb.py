"""Bithumb's wire: Upbit's with the time in each token, three words for a withdrawal, and beneficiaries in requests."""

from __future__ import annotations

from typing import ClassVar
from uuid import uuid4

from qtg_dagster.sandbox.exchange.declined import Reason
from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.upbit_like.dialect import UpbitLikeDialect, Words
from qtg_dagster.sandbox.exchange.upbit_like.rows import RowShape
from qtg_dagster.sandbox.exchange.upbit_like.signing import JwtParameters, Scheme
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalOrder, WithdrawalStatus

_NOT_SAVED = ("withdraw_address_not_registered", "The address is not among those registered for withdrawals.", 400)
_NAMES = ("receiver_ko_name", "receiver_en_name")
_COMPANY = ("receiver_corp_ko_name", "receiver_corp_en_name")


class BithumbDialect(UpbitLikeDialect):
    """A nonce is not remembered: within the life of its token, a copy of a request is taken as another one."""

    scheme = Scheme(hashes_escaped=True, lifetime_ms=60_000, nonces_once=False)
    submitted_status = 201
    other_address = ("NotAllowIP", "not allowed client IP")
    shape = RowShape(
        withdrawal_states={
            WithdrawalStatus.EMAIL_SENT: "PROCESSING",
            WithdrawalStatus.AWAITING_APPROVAL: "PROCESSING",
            WithdrawalStatus.PROCESSING: "PROCESSING",
            WithdrawalStatus.COMPLETED: "DONE",
            WithdrawalStatus.REJECTED: "CANCELLED",
            WithdrawalStatus.FAILURE: "CANCELLED",
            WithdrawalStatus.CANCELLED: "CANCELLED",
        },
        deposit_states={
            DepositStatus.PENDING: "DEPOSIT_PROCESSING",
            DepositStatus.CREDITED_LOCKED: "DEPOSIT_PROCESSING",
            DepositStatus.SUCCESS: "DEPOSIT_ACCEPTED",
            DepositStatus.AWAITING_USER: "REQUESTED_PENDING",
            DepositStatus.REJECTED: "REFUNDED_ACCEPTED",
            DepositStatus.WRONG: "DEPOSIT_CANCELLED",
        },
        transaction_type=None,
        tells_cancelable=False,
        one_of_a_coin=True,
    )
    words: ClassVar[Words] = {
        Reason.UNKNOWN_COIN: ("invalid_parameter", "currency does not have a valid value", 400),
        Reason.UNKNOWN_NETWORK: ("invalid_parameter", "net_type does not have a valid value", 400),
        Reason.NETWORK_CLOSED: ("withdraw_suspended", "Withdrawals of this currency are suspended.", 400),
        Reason.BAD_ADDRESS: _NOT_SAVED,
        Reason.TAG_NOT_TAKEN: _NOT_SAVED,
        Reason.ADDRESS_NOT_SAVED: _NOT_SAVED,
        Reason.MALFORMED_AMOUNT: ("invalid_parameter", "amount does not have a valid value", 400),
        Reason.OFF_STEP: ("invalid_parameter", "amount has too many decimal places", 400),
        Reason.BELOW_MINIMUM: ("invalid_parameter", "amount is below the minimum", 400),
        Reason.ABOVE_MAXIMUM: ("withdraw_insufficient_balance", "The limit of withdrawals is exceeded.", 400),
        Reason.NOT_ABOVE_FEE: ("invalid_parameter", "amount is below the minimum", 400),
        Reason.INSUFFICIENT: ("withdraw_insufficient_balance", "The limit of withdrawals is exceeded.", 400),
        Reason.REPEATED_ORDER_ID: ("invalid_parameter", "identifier does not have a valid value", 400),
        Reason.TRAVEL_RULE: ("invalid_parameter", "The receiver has to be named.", 400),
        Reason.MAINTENANCE: ("server_error", "The service is under maintenance.", 500),
        Reason.NO_SUCH_ENDPOINT: ("not_found", "Not Found", 404),
        Reason.KEY_MAY_NOT: ("out_of_scope", "The key lacks the permission.", 401),
    }

    def withdrawal_id(self) -> str:
        return str(2 * 10**14 + uuid4().int % 10**14)

    def deposit_id(self) -> str:
        return self.withdrawal_id()

    def withdraw(self, order: WithdrawalOrder, parameters: JwtParameters) -> str:
        return self.venue.withdraw(order, told=_is_told(parameters))


def _is_told(parameters: JwtParameters) -> bool:
    """Whether the receiver is named: the exchange, a person by either name, and a company by both of its own."""
    kind = parameters.text("receiver_type")
    if kind is None:
        return False
    if kind not in ("personal", "corporation"):
        raise parameters.malformed("receiver_type")
    company = kind == "personal" or all(parameters.text(name) for name in _COMPANY)
    named = any(parameters.text(name) for name in _NAMES)
    return company and named and parameters.text("exchange_name") is not None


DIALECT = BithumbDialect
