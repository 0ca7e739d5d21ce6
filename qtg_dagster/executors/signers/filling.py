"""The one thing that a signer signs beside what it has signed under a nonce: nothing, from the sender to itself.

It moves no money whoever asks for it, and of all that is signed under one nonce a chain executes one.
"""

from __future__ import annotations

from qtg_dagster.domain.contract import SignRequest
from qtg_dagster.domain.errors import SigningRefused
from qtg_dagster.domain.nonce_chain import FILL_ACTION
from qtg_dagster.executors.signers.policy import check_account, check_fees
from qtg_dagster.executors.signers.reading import ReadTransaction
from qtg_dagster.inventory import Inventory, SignerPolicy


def check_fill(
    read: ReadTransaction,
    request: SignRequest,
    signer_key: str,
    sender: str,
    policy: SignerPolicy,
    inventory: Inventory,
) -> None:
    """Raise unless the transaction uses up a nonce of this signer's account and does nothing else."""
    intent = request.signing_intent
    if intent.action != FILL_ACTION:
        raise SigningRefused(f"signing_intent.action: {intent.action!r} is not {FILL_ACTION}")
    check_account(read, request, signer_key, sender, inventory)
    # A signer without a policy signs nothing, this neither.
    if not policy.destinations or not policy.nonce_fills:
        raise SigningRefused("policy.nonce_fills: the signer's policy lets it fill no nonce")
    for field, found, wanted in (
        ("to", read.to, sender),
        ("value", str(read.value), "0"),
        ("data", read.data, "0x"),
    ):
        if found != wanted:
            raise SigningRefused(f"payload.transaction.{field}: {found}; what fills a nonce has {wanted}")
    for field, said, wanted in (
        ("destination", intent.destination.lower(), sender),
        ("amount", intent.amount, "0"),
        ("asset", intent.asset, inventory.chains[read.chain].native_asset),
    ):
        if said != wanted:
            raise SigningRefused(f"signing_intent.{field}: {said!r}; for what fills a nonce it is {wanted}")
    check_fees(read, intent, policy, inventory)


def fill_role(nonce: int) -> str:
    """Under which role of its node the journal has it."""
    return f"{FILL_ACTION}#{nonce}"
