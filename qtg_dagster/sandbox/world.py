"""Setting the sandbox up: accounts, token, funds, the exchange's config and QTG's inventory.

Chain and exchange ledger are two memories of one world and must agree. When one of them was lost without the other
(its folder removed, say), the world is made anew as the next *epoch*: new keys, new token, new ledger, in a folder of
its own. Nothing of an old epoch is touched; movements of that time keep naming addresses that no longer exist here.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.sandbox import contracts
from qtg_dagster.sandbox.chain import CHAIN, CHAIN_ID
from qtg_dagster.sandbox.faucet import Faucet
from qtg_dagster.sandbox.keyring import Keyring, write_private
from qtg_dagster.secret import Secret

VENUES = ("venue_a", "venue_b")
TREASURY = "treasury"
TREASURY_SIGNER = "signer.local.treasury"
_CONTROL_TOKEN = "control.token"  # noqa: S105 - a file name
_EXCHANGE_CONFIG = "exchange.json"
_ETHER = 10**18
_USDC = 10**contracts.USDC_DECIMALS
_TREASURY_FUNDS = (100 * _ETHER, 1_000_000 * _USDC)
_HOT_WALLET_FUNDS = (10_000 * _ETHER, 1_000_000_000 * _USDC)


@dataclass(frozen=True, slots=True)
class World:
    """Where everything in the sandbox is. Addresses are lower-case hex."""

    epoch: str
    chain: str
    chain_url: str
    exchange_url: str
    token: str
    treasury: str
    hot_wallets: dict[str, str]
    deposit_addresses: dict[str, str]
    start_block: int
    folder: Path
    exchange_config: Path
    inventory_file: Path

    @property
    def ledger(self) -> Path:
        return self.folder / "exchange.sqlite3"

    def control_token(self) -> Secret:
        """The bearer token of the exchange's side door."""
        return Secret(Keyring(self.folder).token(_CONTROL_TOKEN))


@dataclass(frozen=True, slots=True)
class _Epoch:
    """What of a world is written down."""

    number: int
    token: str = ""
    start_block: int = 0
    funded: bool = False


def prepare_world(home: Path, chain_url: str, exchange_port: int) -> World:
    """Make the sandbox ready, doing only what is not done yet; call it at every start, before the exchange runs.

    `home` is the state folder; ports may differ from those of the last start. Raises `ConfigurationError` when the
    chain does not answer or is not the sandbox's.
    """
    root = home / "sandbox"
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    faucet = Faucet(chain_url, CHAIN_ID)
    try:
        faucet.verify()
        epoch = _current_epoch(root, faucet)
        world = _world(home, epoch, chain_url, exchange_port)
        if not epoch.token:
            height = int(faucet.call("eth_blockNumber"), 16)
            epoch = replace(epoch, token=contracts.deploy_usdc(faucet), start_block=height)
            _save(root, epoch)
        world = _world(home, epoch, chain_url, exchange_port)
        if not epoch.funded:
            _fund(faucet, world)
            _save(root, replace(epoch, funded=True))
    finally:
        faucet.close()
    _write_config(world)
    return world


def control_token(home: Path) -> Secret:
    """The bearer token of the exchange's side door in the present epoch; raises `ConfigurationError` without one."""
    return Secret(Keyring(_present_folder(home)).token(_CONTROL_TOKEN))


def exchange_config_file(home: Path) -> Path:
    """Where `prepare_world` put the exchange's config of the present epoch."""
    return _present_folder(home) / _EXCHANGE_CONFIG


def _present_folder(home: Path) -> Path:
    root = home / "sandbox"
    if not (root / "world.json").is_file():
        raise ConfigurationError(f"there is no sandbox in {home}; start one with `qtg up`")
    return _folder(root, _Epoch(**json.loads((root / "world.json").read_text())))


def _current_epoch(root: Path, faucet: Faucet) -> _Epoch:
    path = root / "world.json"
    if not path.is_file():
        return _begin(root, 1)
    epoch = _Epoch(**json.loads(path.read_text()))
    folder = _folder(root, epoch)
    if epoch.token and not faucet.code_at(epoch.token):
        return _begin(root, epoch.number + 1)  # the chain was lost
    if epoch.funded and not (folder / "exchange.sqlite3").is_file():
        hot_wallets = [Keyring(folder).address(f"{venue}.hot_wallet.key") for venue in VENUES]
        if any(int(faucet.call("eth_getTransactionCount", wallet, "latest"), 16) for wallet in hot_wallets):
            return _begin(root, epoch.number + 1)  # the exchange's books were lost
    return epoch


def _begin(root: Path, number: int) -> _Epoch:
    epoch = _Epoch(number)
    _save(root, epoch)
    return epoch


def _save(root: Path, epoch: _Epoch) -> None:
    write_private(root / "world.json", json.dumps(asdict(epoch), indent=2))


def _folder(root: Path, epoch: _Epoch) -> Path:
    return root / f"epoch-{epoch.number}"


def _world(home: Path, epoch: _Epoch, chain_url: str, exchange_port: int) -> World:
    folder = _folder(home / "sandbox", epoch)
    keys = Keyring(folder)
    return World(
        epoch=f"{epoch.number}-{epoch.token}",
        chain=CHAIN,
        chain_url=chain_url,
        exchange_url=f"http://127.0.0.1:{exchange_port}",
        token=epoch.token,
        treasury=keys.keystore("treasury.keystore.json", keys.token("treasury.passphrase")),
        hot_wallets={venue: keys.address(f"{venue}.hot_wallet.key") for venue in VENUES},
        deposit_addresses={venue: keys.address(f"{venue}.deposit.key") for venue in VENUES},
        start_block=epoch.start_block,
        folder=folder,
        exchange_config=folder / _EXCHANGE_CONFIG,
        inventory_file=home / "inventory.yaml",
    )


def _fund(faucet: Faucet, world: World) -> None:
    wanted = {world.treasury: _TREASURY_FUNDS, **dict.fromkeys(world.hot_wallets.values(), _HOT_WALLET_FUNDS)}
    for address, (wei, units) in wanted.items():
        if int(faucet.call("eth_getBalance", address, "latest"), 16) == 0:
            faucet.send(to=address, value=wei)
        if contracts.balance(faucet, world.token, address) == 0:
            contracts.mint(faucet, world.token, address, units)


def _write_config(world: World) -> None:
    from qtg_dagster.sandbox.world_config import exchange_config, inventory_yaml

    exchange_config(world).save(world.exchange_config)
    write_private(world.inventory_file, inventory_yaml(world).rstrip("\n"))
