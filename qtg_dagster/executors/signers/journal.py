"""The signer's own memory of what it signed: the last line of defence when everything above it is wrong."""

from __future__ import annotations

from typing import Protocol


class SignerJournal(Protocol):
    """Remembers every signature before it is made."""

    async def record(
        self, *, chain: str, sender: str, nonce: int, request_node_id: str, role: str, effect_hash: str
    ) -> None:
        """Commit that this effect is about to be signed; asking again for the same effect is fine.

        Raises `SigningRefused` when another `effect_hash` is on record for (chain, sender, nonce) or for
        (request_node_id, role). `effect_hash` covers chain, sender, nonce, recipient, value and calldata and leaves
        fees out: of two transactions that differ in fees alone the chain takes at most one, so an action that
        expired may be priced again. `role` is the action and its attempt, e.g. `evm_transfer#1`.
        """
        ...

    async def record_fill(
        self, *, chain: str, sender: str, nonce: int, request_node_id: str, role: str, effect_hash: str
    ) -> None:
        """Commit that what fills this nonce is about to be signed, beside the effect that is on record under it.

        Raises `SigningRefused` when there is none: a nonce under which nothing was signed needs no filling. From then
        on `record` refuses even the effect that was there before: its nonce is to be used up.
        """
        ...

    async def spend(
        self, *, chain: str, sender: str, nonce: int, asset: str, units: int, daily_units: int, at_most: str
    ) -> None:
        """Commit that so much is about to be signed for; asking again for the same nonce spends nothing more.

        Raises `SigningRefused`, naming `at_most`, when the day's sum (UTC) of this sender and asset would be over
        `daily_units`, and then has spent nothing. Asked only of signers whose policy has a daily limit.
        """
        ...
