"""QTG: moves treasury funds between exchanges and chains, durably."""
