"""The stand-in exchange: the wires of several venues, one ledger, real payouts on a chain, faults on order."""
