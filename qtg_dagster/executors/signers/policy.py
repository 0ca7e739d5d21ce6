"""What a signer agrees to: payload, intent, inventory and its own policy must all say the same. Default deny."""

from __future__ import annotations

from datetime import datetime

from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.domain.chains import evm_address
from qtg_dagster.domain.contract import SigningIntent, SignRequest, payload_hash
from qtg_dagster.domain.errors import InvalidInput, SigningRefused
from qtg_dagster.executors.signers.reading import PAYLOAD_FORMATS, ReadTransaction
from qtg_dagster.inventory import ChainEntry, Inventory, SignerPolicy

WEI_PER_GWEI = 10**9
_USD = Asset("USD", 18)


def check_hashes(request: SignRequest) -> None:
    """Raise unless the payload is the one that was prepared and approved."""
    if request.payload_format not in PAYLOAD_FORMATS:
        raise SigningRefused(f"payload_format: {request.payload_format!r} is none of {', '.join(PAYLOAD_FORMATS)}")
    if payload_hash(request.payload) != request.payload_hash:
        raise SigningRefused("payload_hash: not the hash of the payload")
    if request.signing_intent.allowed_payload_hash != request.payload_hash:
        raise SigningRefused("signing_intent.allowed_payload_hash: another payload was allowed")


def check_approval(request: SignRequest, now: datetime) -> None:
    """Raise unless the approval that the request names still counts."""
    stated = request.metadata.get("approval_expires_at")
    if stated is None:
        return
    try:
        expires_at = datetime.fromisoformat(str(stated))
        expired = now >= expires_at
    except (ValueError, TypeError):
        raise SigningRefused(f"metadata.approval_expires_at: {stated!r} is not an aware time") from None
    if expired:
        raise SigningRefused(f"metadata.approval_expires_at: the approval was valid until {expires_at.isoformat()}")


def check_agreement(
    read: ReadTransaction, request: SignRequest, signer_key: str, sender: str, inventory: Inventory
) -> None:
    """Raise unless the transaction does exactly what the intent says, from an account of this signer."""
    intent = request.signing_intent
    check_account(read, request, signer_key, sender, inventory)
    _check_asset(read, intent, inventory.chains[read.chain])
    if read.recipient != _address(intent.destination):
        raise SigningRefused(f"destination: the payload pays {read.recipient}, the intent says {intent.destination}")
    amount = _amount(inventory, intent.asset, intent.amount, field="signing_intent.amount")
    if read.units != amount.base_units:
        paid = Amount(amount.asset, read.units)
        raise SigningRefused(f"amount: the payload pays {paid}, the intent says {amount}")


def check_account(
    read: ReadTransaction, request: SignRequest, signer_key: str, sender: str, inventory: Inventory
) -> None:
    """Raise unless it was prepared for the node that asks, on a chain of ours, from an account of this signer."""
    intent = request.signing_intent
    if read.request_node_id != request.request_node_id:
        raise SigningRefused("payload.request_node_id: the payload was prepared for another node")
    if intent.chain_family != "evm":
        raise SigningRefused(f"signing_intent.chain_family: {intent.chain_family!r} is not evm")
    if read.chain not in inventory.chains:
        raise SigningRefused(f"payload.transaction.chain_id: {read.chain} is not in the inventory")
    wanted_chain = request.metadata.get("chain")
    if wanted_chain is not None and wanted_chain != read.chain:
        raise SigningRefused(f"payload.transaction.chain_id: {read.chain}, the movement names {wanted_chain}")
    ours = [account for account in inventory.accounts.values() if account.signer == signer_key]
    if not any(account.chain == read.chain and account.address == sender for account in ours):
        raise SigningRefused(f"{signer_key}: the key's address {sender} is no account of this signer on {read.chain}")


def check_policy(read: ReadTransaction, intent: SigningIntent, policy: SignerPolicy, inventory: Inventory) -> None:
    """Raise unless the signer's own limits allow it."""
    allowed = {entry.lower() for entry in policy.destinations}
    if read.recipient not in allowed:
        raise SigningRefused(f"policy.destinations: {read.recipient} is not on the signer's allowlist")
    if intent.asset not in policy.caps:
        raise SigningRefused(f"policy.caps: no cap for {intent.asset}, so none of it is signed")
    cap = _amount(inventory, intent.asset, policy.caps[intent.asset], field=f"policy.caps.{intent.asset}")
    if read.units == 0 or read.units > cap.base_units:
        raise SigningRefused(f"policy.caps.{intent.asset}: {Amount(cap.asset, read.units)} is not within (0, {cap}]")
    check_fees(read, intent, policy, inventory)


def check_fees(read: ReadTransaction, intent: SigningIntent, policy: SignerPolicy, inventory: Inventory) -> None:
    """Raise unless what it pays for gas is within the chain's, the policy's and the intent's own ceiling."""
    chain = inventory.chains[read.chain]
    if read.max_fee_per_gas > chain.max_fee_gwei * WEI_PER_GWEI:
        raise SigningRefused(f"chains.{read.chain}.max_fee_gwei: {read.max_fee_per_gas} wei per gas is over it")
    if read.max_priority_fee_per_gas > read.max_fee_per_gas:
        # No node takes such a transaction, and what is signed holds its nonce.
        raise SigningRefused("payload.transaction.max_priority_fee_per_gas: higher than max_fee_per_gas")
    _check_gas_cost(read.gas * read.max_fee_per_gas, intent, policy, chain.native_asset, inventory)


def _check_gas_cost(wei: int, intent: SigningIntent, policy: SignerPolicy, coin: str, inventory: Inventory) -> None:
    native = inventory.asset(coin)
    ceiling = _parsed(native, policy.max_fee_native, field="policy.max_fee_native")
    if wei > ceiling.base_units:
        raise SigningRefused(f"policy.max_fee_native: gas may cost {wei} base units of {coin}, over {ceiling}")
    if intent.max_fee_usd is None:
        return
    if coin not in policy.native_usd:
        raise SigningRefused(f"policy.native_usd: no price of {coin}, so that max_fee_usd cannot be judged")
    most = _parsed(_USD, intent.max_fee_usd, field="signing_intent.max_fee_usd")
    price = _parsed(_USD, policy.native_usd[coin], field=f"policy.native_usd.{coin}")
    if wei * price.base_units > most.base_units * 10**native.decimals:
        raise SigningRefused(f"max_fee_usd: {wei} base units of {coin} at {price} are over {most}")


def daily_limit(policy: SignerPolicy, asset: str, inventory: Inventory) -> Amount:
    """The most of an asset that is signed for in one day; raises `SigningRefused` for one that cannot be read."""
    return _amount(inventory, asset, policy.daily[asset], field=f"policy.daily.{asset}")


def _check_asset(read: ReadTransaction, intent: SigningIntent, chain: ChainEntry) -> None:
    expected = None if intent.asset == chain.native_asset else chain.tokens.get(intent.asset, "")
    if expected == "":
        raise SigningRefused(f"asset: {intent.asset} is not on {read.chain}")
    if read.token != expected:
        actual = read.token or f"the native coin {chain.native_asset}"
        raise SigningRefused(f"asset: the payload moves {actual}, the intent says {intent.asset}")


def _address(text: str) -> str:
    try:
        return evm_address(text)
    except InvalidInput as error:
        raise SigningRefused(f"signing_intent.destination: {error.problem}") from None


def _amount(inventory: Inventory, asset: str, text: str, *, field: str) -> Amount:
    try:
        return _parsed(inventory.asset(asset), text, field=field)
    except InvalidInput as error:
        raise SigningRefused(f"{field}: {error.problem}") from None


def _parsed(asset: Asset, text: str, *, field: str) -> Amount:
    try:
        return Amount.parse(asset, text, field=field)
    except InvalidInput as error:
        raise SigningRefused(f"{field}: {error.problem}") from None
