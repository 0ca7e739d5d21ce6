"""Where a sender's next nonce comes from: a durable ledger, never the node's pending count."""

from __future__ import annotations

from typing import Protocol


class NonceLedger(Protocol):
    """Hands out nonces durably."""

    async def reserve(self, *, chain: str, sender: str, request_node_id: str, attempt_no: int, chain_nonce: int) -> int:
        """The nonce of this attempt of this node, committed before it is returned.

        The same (node, attempt) always gets the same nonce. A new one gets the lowest free nonce that is not below
        `chain_nonce`, the number of the sender's mined transactions. `chain` is CAIP-2, `sender` lower-case 0x hex.
        """
        ...
