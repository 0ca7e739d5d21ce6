"""Upbit's wire: a nonce is good once, tokens have no time, a withdrawal is answered with 201 and the whole row."""

from __future__ import annotations

from typing import ClassVar

from qtg_dagster.sandbox.exchange.declined import Reason
from qtg_dagster.sandbox.exchange.deposits import DepositStatus
from qtg_dagster.sandbox.exchange.upbit_like.dialect import UpbitLikeDialect, Words
from qtg_dagster.sandbox.exchange.upbit_like.rows import RowShape
from qtg_dagster.sandbox.exchange.upbit_like.signing import Scheme
from qtg_dagster.sandbox.exchange.withdrawals import WithdrawalStatus

_NOT_SAVED = ("withdraw_address_not_registered", "The address is not among those registered for withdrawals.", 400)


class UpbitDialect(UpbitLikeDialect):
    """Everything it says of a withdrawal but where it went."""

    scheme = Scheme()
    submitted_status = 201
    other_address = ("no_authorization_ip", "This is not one of the addresses of the key.")
    shape = RowShape(
        withdrawal_states={
            WithdrawalStatus.EMAIL_SENT: "WAITING",
            WithdrawalStatus.AWAITING_APPROVAL: "WAITING",
            WithdrawalStatus.PROCESSING: "PROCESSING",
            WithdrawalStatus.COMPLETED: "DONE",
            WithdrawalStatus.REJECTED: "REJECTED",
            WithdrawalStatus.FAILURE: "FAILED",
            WithdrawalStatus.CANCELLED: "CANCELLED",
        },
        deposit_states={
            DepositStatus.PENDING: "PROCESSING",
            DepositStatus.CREDITED_LOCKED: "PROCESSING",
            DepositStatus.SUCCESS: "ACCEPTED",
            DepositStatus.AWAITING_USER: "TRAVEL_RULE_SUSPECTED",
            DepositStatus.REJECTED: "REJECTED",
            DepositStatus.WRONG: "REFUNDING",
        },
        transaction_type="default",
        tells_cancelable=True,
        one_of_a_coin=False,
    )
    words: ClassVar[Words] = {
        Reason.UNKNOWN_COIN: ("validation_error", "currency does not have a valid value", 400),
        Reason.UNKNOWN_NETWORK: ("validation_error", "net_type does not have a valid value", 400),
        Reason.NETWORK_CLOSED: ("withdraw_suspended", "Withdrawals of this currency are suspended.", 400),
        Reason.BAD_ADDRESS: _NOT_SAVED,
        Reason.TAG_NOT_TAKEN: _NOT_SAVED,
        Reason.ADDRESS_NOT_SAVED: _NOT_SAVED,
        Reason.MALFORMED_AMOUNT: ("validation_error", "amount does not have a valid value", 400),
        Reason.OFF_STEP: ("withdraw_decimal_place", "The amount has too many decimal places.", 400),
        Reason.BELOW_MINIMUM: ("withdraw_amount_too_small", "The amount is below the minimum.", 400),
        Reason.ABOVE_MAXIMUM: ("withdraw_amount_too_large", "The amount is above the maximum.", 400),
        Reason.NOT_ABOVE_FEE: ("withdraw_amount_too_small", "The amount is below the minimum.", 400),
        Reason.INSUFFICIENT: ("withdraw_insufficient_balance", "The balance is insufficient.", 400),
        Reason.REPEATED_ORDER_ID: ("validation_error", "identifier does not have a valid value", 400),
        Reason.TRAVEL_RULE: ("travel_rule_required", "The address has to be verified first.", 400),
        Reason.MAINTENANCE: ("server_error", "The service is under maintenance.", 500),
        Reason.NO_SUCH_ENDPOINT: ("not_found", "Not Found", 404),
        Reason.KEY_MAY_NOT: ("out_of_scope", "The key lacks the permission.", 403),
    }


DIALECT = UpbitDialect
