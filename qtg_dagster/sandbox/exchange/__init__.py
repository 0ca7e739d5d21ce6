"""The stand-in exchange: Binance's wire, its own ledger, real payouts on the sandbox chain, faults on order."""
