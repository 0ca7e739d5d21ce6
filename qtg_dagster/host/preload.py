"""The large libraries that runs use: imported once in the process that runs are forked from, and nowhere else."""

import aiohttp
import ccxt.async_support
import eth_account
import web3

from qtg_dagster.recursion import keep_recursion_limit

keep_recursion_limit()

__all__ = ["aiohttp", "ccxt", "eth_account", "web3"]
