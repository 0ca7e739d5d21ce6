"""The executor contract, the registry that finds executors by exact key, and signers."""
