"""Names of assets, checks and of the tag that carries a scheduled window."""

from __future__ import annotations

import dagster as dg

GROUP = "treasury"
ALERTS = dg.AssetKey("alerts")
BALANCES = dg.AssetKey("balances")
CALLBACKS = dg.AssetKey("callbacks")
CAPITAL_TRANSFERS = dg.AssetKey("capital_transfers")
CEX_TRANSFERS = dg.AssetKey("cex_transfers")
EVM_NONCES = dg.AssetKey("evm_nonces")
EXECUTORS = dg.AssetKey("executors")
MOVEMENTS = dg.AssetKey("movements")
WORKERS = dg.AssetKey("workers")
RETENTION = dg.AssetKey("retention")
AUDIT_TRAIL = dg.AssetKey("audit_trail")

#: Tag of a scheduled run: the time it was scheduled for, from which its windows follow.
WINDOW_TAG = "qtg/window"
