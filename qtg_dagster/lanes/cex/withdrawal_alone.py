"""Withdrawals where some venue's rows do not carry our id: one of an asset at a time, so that one row can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qtg_dagster.lanes.cex.withdrawal_action import WithdrawalAction


class WithdrawalActionAlone(WithdrawalAction):
    """The same executor, with a key where two withdrawals in flight could be taken for one another."""

    def serialization_key(self, node_config: Mapping[str, Any]) -> str | None:
        """One withdrawal in flight per account and asset; none is needed where rows carry our id.

        A venue that is not named outright yet could be one that needs it.
        """
        venue, asset = node_config.get("venue"), node_config.get("asset")
        if not isinstance(venue, str) or not isinstance(asset, str):
            return "cex:not-named-yet"
        known = {account.key: account for account in self._accounts}.get(venue)
        if known is not None and known.venue.identity.is_shown:
            return None
        return f"cex:{venue}:{known.entry.assets.get(asset, asset) if known else asset}"
