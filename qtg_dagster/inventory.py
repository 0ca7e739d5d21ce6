"""The desk's inventory: which assets, chains, venues, accounts and signers exist. One YAML file, no secrets in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Discriminator, Field, StringConstraints, Tag, ValidationError, field_validator, model_validator

from qtg_dagster.domain.alerts import AlertKind, Severity
from qtg_dagster.domain.amounts import Asset
from qtg_dagster.domain.chains import ChainId, evm_address
from qtg_dagster.domain.errors import ConfigurationError, InvalidInput, NotFound
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.domain.routes import Endpoint, EndpointKind, RouteEntry, find_route
from qtg_dagster.secret import SecretSource

Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")]
Wire = Literal["binance", "okx", "bybit", "kraken", "coinbase", "bitget", "kucoin", "gate", "upbit", "bithumb"]
_WITH_PASSPHRASE = frozenset({"okx", "bitget", "kucoin"})
_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")
SignerKey = Annotated[str, StringConstraints(pattern=r"^signer(\.[a-z][a-z0-9_]*){2,}$")]
ExecutorKey = Annotated[str, StringConstraints(pattern=r"^exec(\.[a-z][a-z0-9_]*){2,}$")]


class AssetEntry(Frozen):
    """An asset and its decimals; the key it stands under is how templates name it."""

    symbol: str
    decimals: int = Field(ge=0, le=36)

    def asset(self) -> Asset:
        return Asset(self.symbol, self.decimals)


class ChainEntry(Frozen):
    """An EVM chain by its CAIP-2 key: endpoints, native asset, token contracts, when a block counts as final."""

    name: str
    rpc_urls: tuple[str, ...] = Field(min_length=1)
    native_asset: Key
    tokens: dict[Key, str] = Field(default_factory=dict, description="asset key -> contract address")
    confirmations: int = Field(default=1, ge=1, description="blocks for a transfer to count as mined")
    finality_confirmations: int | None = Field(
        default=None, ge=1, description="blocks for finality; null asks the chain for its `finalized` block"
    )
    max_fee_gwei: int = Field(default=500, ge=1, description="never sign a higher fee per gas")

    @field_validator("tokens")
    @classmethod
    def _addresses(cls, tokens: dict[str, str]) -> dict[str, str]:
        return {key: evm_address(address, field=f"tokens.{key}") for key, address in tokens.items()}


class VenueEntry(Frozen):
    """An exchange account: its wire, its keys' whereabouts, and its names for our assets and chains."""

    wire: Wire
    account: str = "main"
    base_url: str | None = Field(default=None, description="null = the venue's production hosts")
    api_key: SecretSource
    api_secret: SecretSource
    api_passphrase: SecretSource | None = Field(
        default=None, description="the third part of a key where a venue's keys have one: okx, bitget, kucoin"
    )
    assets: dict[Key, str] = Field(description="asset key -> the venue's coin name")
    networks: dict[str, str] = Field(description="chain (CAIP-2) -> the venue's network name")
    deposit_addresses: dict[str, str] = Field(
        default_factory=dict, description="chain (CAIP-2) -> our deposit address there, for the plan and the check"
    )
    travel_rule: SecretSource | None = Field(
        default=None,
        description="JSON: destination (`address`, or `address|memo`) -> what the venue wants to know of who receives",
    )
    travel_rule_required: bool | None = Field(
        default=None, description="does the venue want to know beneficiaries; null = it is asked where it can be"
    )
    settle_seconds: float = Field(default=20, ge=0, description="how long an empty look-up proves nothing")
    absence_is_proof: bool = Field(
        default=False,
        description="may a withdrawal that many look-ups never found be called not executed; test it live first",
    )
    resend_is_safe: bool = Field(
        default=False,
        description="may a withdrawal that many look-ups never found be asked for again under its id, "
        "where the venue promises to take an id once; test it live first",
    )

    @model_validator(mode="after")
    def _whole_key(self) -> Self:
        needed = self.wire in _WITH_PASSPHRASE
        if needed != (self.api_passphrase is not None):
            raise ValueError(f"api_passphrase: keys of {self.wire} {'have' if needed else 'do not have'} one")
        return self


class AccountEntry(Frozen):
    """One of our own on-chain accounts."""

    chain: str
    address: str
    signer: SignerKey | None = None

    @field_validator("address")
    @classmethod
    def _address(cls, address: str) -> str:
        return evm_address(address)


class SignerPolicy(Frozen):
    """What a signer may sign. Default deny: an empty allowlist signs nothing."""

    destinations: tuple[str, ...] = ()
    caps: dict[Key, str] = Field(default_factory=dict, description="asset key -> largest amount of one signature")
    daily: dict[Key, str] = Field(
        default_factory=dict, description="asset key -> most of it that is signed for in one day (UTC)"
    )
    max_fee_native: str = Field(default="0.05", description="largest gas cost of one transaction, native units")
    nonce_fills: bool = Field(
        default=True,
        description="sign a transfer of nothing to oneself under a nonce that it has signed something under before",
    )
    native_usd: dict[Key, str] = Field(
        default_factory=dict, description="native asset -> the price at which an intent's max_fee_usd is judged"
    )


class PolicyFileEntry(Frozen):
    """A policy in a file of its own, and the key that must have signed it: whoever deploys QTG does not set limits."""

    file: Path
    signature: Path | None = Field(default=None, description="null = the file's name with .sig behind it")
    public_key: str = Field(pattern=r"^[0-9a-f]{64}$", description="ed25519, as `qtg signer sign-policy` shows it")
    least_serial: int = Field(default=1, ge=1, description="an older file is refused, rightly signed though it is")


class SignerEntry(Frozen):
    """What every kind of signer has: a policy, written here or in a signed file. Without one it signs nothing."""

    policy: SignerPolicy = SignerPolicy()
    policy_file: PolicyFileEntry | None = None

    @model_validator(mode="after")
    def _one_policy(self) -> Self:
        if self.policy_file is not None and self.policy != SignerPolicy():
            raise ValueError("policy and policy_file: name one of them")
        return self


class LocalSignerEntry(SignerEntry):
    """A key in an encrypted keystore file (Web3 secret storage v3)."""

    kind: Literal["local"] = "local"
    keystore: Path
    passphrase: SecretSource


def _encrypted(url: str) -> str:
    parts = urlsplit(url)
    if not (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)):
        raise ValueError("give an https address, or http on this machine")
    return url


class AwsKmsSignerEntry(SignerEntry):
    """A key of AWS KMS: asymmetric, SIGN_VERIFY, ECC_SECG_P256K1. Credentials are found as AWS's own tools do."""

    kind: Literal["aws-kms"]
    key_id: str = Field(min_length=1, description="key id, ARN or alias/...")
    region: str = Field(min_length=1)
    profile: str | None = Field(default=None, description="a profile of AWS's configuration; null = the default chain")
    endpoint_url: str | None = Field(default=None, description="null = the region's public endpoint")
    timeout_seconds: float = Field(default=5, gt=0, le=30)

    @field_validator("endpoint_url")
    @classmethod
    def _endpoint(cls, url: str | None) -> str | None:
        return url and _encrypted(url)


class ServiceSignerEntry(SignerEntry):
    """A key behind a service; `address` is the key's, and what the service signs is checked against it."""

    url: str = Field(description="https, or http on this machine; no user, query or fragment")
    address: str
    ca_file: Path | None = Field(default=None, description="PEM certificates to trust; null = the system's")
    timeout_seconds: float = Field(default=10, gt=0, le=60, description="for the whole of an answer")

    @field_validator("url")
    @classmethod
    def _url(cls, url: str) -> str:
        return _encrypted(url)

    @field_validator("address")
    @classmethod
    def _address(cls, address: str) -> str:
        return evm_address(address)


class RemoteSignerEntry(ServiceSignerEntry):
    """A signing service that speaks QTG's documents; `secret` signs requests and answers."""

    kind: Literal["remote"]
    secret: SecretSource


class Web3SignerEntry(ServiceSignerEntry):
    """A Web3Signer in its eth1 mode, started for one chain; it knows its clients by their TLS certificates."""

    kind: Literal["web3signer"]
    client_certificate: Path | None = Field(default=None, description="PEM certificate and key to show to it")


def _kind_of(entry: Any) -> str:
    return str(entry.get("kind", "local") if isinstance(entry, dict) else getattr(entry, "kind", "local"))


AnySignerEntry = Annotated[
    Annotated[LocalSignerEntry, Tag("local")]
    | Annotated[AwsKmsSignerEntry, Tag("aws-kms")]
    | Annotated[RemoteSignerEntry, Tag("remote")]
    | Annotated[Web3SignerEntry, Tag("web3signer")],
    Discriminator(
        _kind_of,
        custom_error_type="signer_kind",
        custom_error_message="kind is none of local, aws-kms, remote and web3signer",
    ),
]


class RemoteExecutorEntry(Frozen):
    """An executor in another process, asked over HTTP. Its service must describe itself in the same terms."""

    url: str = Field(description="https, or a loopback address; the methods' paths are appended")
    secret: SecretSource
    ca_file: Path | None = Field(default=None, description="PEM of its authority; null = the system's authorities")
    submit_grace_seconds: float = Field(default=60, ge=0, description="how long after a lost submit it may still act")
    serialization_key: str | None = Field(default=None, description="its actions do not overlap under this key")
    signs: bool | None = Field(default=None, description="whether its actions want a signature; null = some do")
    timeouts: dict[
        Literal["preflight", "prepare", "submit", "observe", "recover", "health"], Annotated[float, Field(gt=0, le=600)]
    ] = Field(default_factory=dict, description="seconds, where they differ from the usual")


class CallbackSecrets(Frozen):
    """What callbacks are signed with. While a secret is being replaced the previous one signs too."""

    secret: SecretSource
    previous_secret: SecretSource | None = None


class CallbacksEntry(CallbackSecrets):
    """The secret that every receiver shares, and those of receivers that have their own: `host` or `host:port`."""

    receivers: dict[str, CallbackSecrets] = Field(default_factory=dict)
    allowed_hosts: tuple[str, ...] = Field(default=(), description="as MG_CALLBACK_ALLOWED_HOSTS, beside it")


class ChannelEntry(Frozen):
    """Where alerts are told. The URL is apprise's, and a secret: it holds what lets one in."""

    url: SecretSource
    least_severity: Severity = Severity.WARNING
    kinds: tuple[AlertKind, ...] = Field(default=(), description="empty = all")
    network_classes: tuple[str, ...] = Field(default=(), description="empty = all")


class Inventory(Frozen):
    """Everything QTG may touch. Every reference between entries is checked when the file is read."""

    assets: dict[Key, AssetEntry] = Field(default_factory=dict)
    chains: dict[str, ChainEntry] = Field(default_factory=dict)
    venues: dict[Key, VenueEntry] = Field(default_factory=dict)
    accounts: dict[Key, AccountEntry] = Field(default_factory=dict)
    signers: dict[SignerKey, AnySignerEntry] = Field(default_factory=dict)
    executors: dict[ExecutorKey, RemoteExecutorEntry] = Field(default_factory=dict)
    callbacks: CallbacksEntry | None = None
    routes: dict[Key, RouteEntry] = Field(default_factory=dict, description="what capital transfers go by")
    notifications: dict[Key, ChannelEntry] = Field(default_factory=dict, description="channel -> where it leads")

    @model_validator(mode="after")
    def _references_hold(self) -> Self:
        for chain_key, chain in self.chains.items():
            ChainId(chain_key)
            self._known(f"chains.{chain_key}.native_asset", chain.native_asset, self.assets)
            for token in chain.tokens:
                self._known(f"chains.{chain_key}.tokens", token, self.assets)
        for venue_key, venue in self.venues.items():
            for asset in venue.assets:
                self._known(f"venues.{venue_key}.assets", asset, self.assets)
            for network in (*venue.networks, *venue.deposit_addresses):
                self._known(f"venues.{venue_key}.networks", network, self.chains)
        for account_key, account in self.accounts.items():
            self._known(f"accounts.{account_key}.chain", account.chain, self.chains)
            if account.signer is not None:
                self._known(f"accounts.{account_key}.signer", account.signer, self.signers)
                self._same_address(account_key, account, self.signers[account.signer])
        self._routes_hold()
        return self

    def _routes_hold(self) -> None:
        """A transfer has one way to go, and all that is named on it exists."""
        taken: dict[tuple[Endpoint, Endpoint, str], str] = {}
        for key, route in self.routes.items():
            source = self.endpoint(route.source, field=f"routes.{key}.from")
            destination = self.endpoint(route.destination, field=f"routes.{key}.to")
            if source == destination:
                raise ValueError(f"routes.{key}.to: {destination} is where it begins")
            for asset in route.assets:
                self._known(f"routes.{key}.assets", asset, self.assets)
                other = taken.setdefault((source, destination, asset), key)
                if other != key:
                    raise ValueError(f"routes.{key}: route {other} already carries {asset} there")
            for role, signer in route.bindings.items():
                self._known(f"routes.{key}.bindings.{role}", signer, self.signers)

    @staticmethod
    def _same_address(account_key: str, account: AccountEntry, signer: AnySignerEntry) -> None:
        if isinstance(signer, ServiceSignerEntry) and signer.address != account.address:
            raise ValueError(f"accounts.{account_key}.address: its signer {account.signer} is for {signer.address}")

    @staticmethod
    def _known(field: str, key: str, table: Mapping[str, object]) -> None:
        if key not in table:
            raise ValueError(f"{field}: {key!r} is not in the inventory; known: {', '.join(sorted(table)) or 'none'}")

    @classmethod
    def load(cls, path: Path) -> Inventory:
        """Read the YAML file, unless it is as it was; raises `ConfigurationError` naming every field that is wrong."""
        if not path.is_file():
            raise ConfigurationError(f"MG_INVENTORY_FILE: {path} is not a file")
        stat = path.stat()
        return cls._read(path, (stat.st_ino, stat.st_size, stat.st_mtime_ns))

    @classmethod
    @lru_cache(maxsize=4)
    def _read(cls, path: Path, _as_it_is: tuple[int, int, int]) -> Inventory:
        import yaml

        try:
            return cls.model_validate(yaml.safe_load(path.read_text()) or {})
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f"; look at line {mark.line + 1}" if mark else ""
            raise ConfigurationError(f"MG_INVENTORY_FILE: {path} is not YAML{where}") from None
        except ValidationError as error:
            raise ConfigurationError(f"MG_INVENTORY_FILE: {path}: {_wrong_fields(error)}") from None
        except InvalidInput as error:
            raise ConfigurationError(f"MG_INVENTORY_FILE: {path}: {error}") from error

    def asset(self, key: str, *, field: str = "asset") -> Asset:
        if key not in self.assets:
            raise InvalidInput(field, f"unknown asset {key!r}", f"Use one of {', '.join(sorted(self.assets))}.")
        return self.assets[key].asset()

    def chain(self, key: str) -> ChainEntry:
        if key not in self.chains:
            raise NotFound(f"chain {key!r} is not in the inventory; known: {', '.join(sorted(self.chains))}")
        return self.chains[key]

    def venue(self, key: str) -> VenueEntry:
        if key not in self.venues:
            raise NotFound(f"venue {key!r} is not in the inventory; known: {', '.join(sorted(self.venues))}")
        return self.venues[key]

    def endpoint(self, text: str, *, field: str) -> Endpoint:
        """Where a transfer begins or ends: `binance`, `binance.main`, `treasury`, or `venue:...` and `account:...`."""
        kind, colon, key = text.strip().rpartition(":")
        plain, dot, account = key.partition(".")
        found: list[Endpoint] = []
        venue = self.venues.get(plain)
        if kind in ("", EndpointKind.VENUE) and venue is not None and (not dot or account == venue.account):
            found.append(Endpoint(EndpointKind.VENUE, plain, tuple(venue.deposit_addresses.values())))
        if kind in ("", EndpointKind.ACCOUNT) and key in self.accounts:
            found.append(Endpoint(EndpointKind.ACCOUNT, key, (self.accounts[key].address,)))
        if len(found) == 1 and bool(kind) == bool(colon):
            return found[0]
        known = ", ".join([*(f"venue:{key}" for key in self.venues), *(f"account:{key}" for key in self.accounts)])
        problem = "a venue and an account have the name" if found else "is no venue and no account of the inventory"
        raise InvalidInput(field, f"{text!r} {problem}", f"Use one of {known or 'none yet'}.")

    def route(self, source: Endpoint, destination: Endpoint, asset: str) -> tuple[str, RouteEntry]:
        """The route of an asset, with its key; raises `InvalidInput` naming those there are."""
        ends = {
            key: (self.endpoint(route.source, field="from"), self.endpoint(route.destination, field="to"))
            for key, route in self.routes.items()
        }
        return find_route(self.routes, ends, source, destination, asset)

    def account(self, key: str) -> AccountEntry:
        if key not in self.accounts:
            raise NotFound(f"account {key!r} is not in the inventory; known: {', '.join(sorted(self.accounts))}")
        return self.accounts[key]


def _wrong_fields(error: ValidationError) -> str:
    """Fields and reasons without what stands in them: that may be a secret written in the wrong place."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}" for each in found)
