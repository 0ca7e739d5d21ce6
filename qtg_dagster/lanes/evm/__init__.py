"""EVM lane: transfers of native coins and ERC-20 tokens, and looking at what arrived."""
