"""Pure rules of moving funds: states, plans, values, contracts. No I/O, no imports of ours."""
