"""Where callbacks may go: the form of a receiver's URL, and which addresses are nobody's business to be called at.

Whoever orders a movement names a URL, and QTG calls it from inside the house. What is refused here is refused at
creation, and again when the connection is made: a name may lead elsewhere by then.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from qtg_dagster.domain.errors import InvalidInput

IPAddress: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
IPNetwork: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"

MAX_URL = 2048
FIELD = "callback_url"
#: Default port of each scheme that a callback may use.
DEFAULT_PORTS = {"https": 443, "http": 80}

#: IPv4 ranges that are not the public internet, and one public address that is: the cloud's own.
_CLOSED_V4 = tuple(
    ipaddress.IPv4Network(each)
    for each in (
        "0.0.0.0/8",  # this network: 0.0.0.0 reaches the machine itself
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a carrier's NAT, and some clouds' metadata
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's own service, at a public address
        "169.254.0.0/16",  # link-local, with most clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
#: All IPv6 that is given out for the public internet lies in one block; these parts of it do not count.
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_CLOSED_V6 = tuple(
    ipaddress.IPv6Network(each)
    for each in (
        "2001::/23",  # protocols, with Teredo, whose addresses carry another inside
        "2001:db8::/32",
        "2002::/16",  # 6to4: carries an IPv4 address inside
        "3fff::/20",
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
#: As the last label these make libraries read a number: 0x7f.1, 2130706433, 0177.0.0.1.
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
#: Names that lead to machines nearby, whatever a resolver says.
_NEARBY = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "localdomain")
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


class Resolver(Protocol):
    """Finds the addresses of a name."""

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """All of them; raises `OSError` when the name cannot be resolved."""
        ...


@dataclass(frozen=True, slots=True)
class Receiver:
    """A URL taken apart, in its one spelling."""

    scheme: str
    host: str  # lower case; an IPv6 address without brackets
    port: int
    target: str  # path and query

    @property
    def authority(self) -> str:
        """Host and port as the URL shows them: what callbacks are counted and shared out by."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == DEFAULT_PORTS[self.scheme] else f"{shown}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def address(self) -> IPAddress | None:
        """The address that the host is, when it is no name."""
        return _literal(self.host)


@dataclass(frozen=True, slots=True)
class ReceiverPolicy:
    """What is allowed beyond https at public addresses. Hosts are `name` or `name:port`, and are not judged further."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[IPNetwork, ...] = ()
    ports: frozenset[int] = frozenset({443, 8443})

    @classmethod
    def parse(cls, hosts: str, networks: str, ports: str) -> ReceiverPolicy:
        """From comma-separated settings; raises `ValueError` saying what is wrong."""
        return cls(
            frozenset(each.lower() for each in _split(hosts)),
            tuple(ipaddress.ip_network(each) for each in _split(networks)),
            frozenset(_port(each) for each in _split(ports)),
        )

    def trusts(self, receiver: Receiver) -> bool:
        """Whether the operator named this host, so that its scheme, port and addresses are the operator's affair."""
        shown = f"[{receiver.host}]" if ":" in receiver.host else receiver.host
        return not self.hosts.isdisjoint({shown, receiver.host, f"{shown}:{receiver.port}"})

    def read(self, url: str) -> Receiver:
        """Take a URL apart and judge all of it that needs no look-up; raises `InvalidInput`."""
        receiver = read_url(url)
        if self.trusts(receiver):
            return receiver
        if receiver.scheme != "https":
            raise InvalidInput(FIELD, "is not https", "Use https, or have MG_CALLBACK_ALLOWED_HOSTS name the host.")
        if receiver.port not in self.ports:
            allowed = ", ".join(str(port) for port in sorted(self.ports))
            raise InvalidInput(FIELD, f"uses port {receiver.port}", f"Use one of {allowed} (MG_CALLBACK_PORTS).")
        address = receiver.address
        if address is None:
            self._check_name(receiver.host)
        else:
            self.check_addresses(receiver, [str(address)])
        return receiver

    def check_addresses(self, receiver: Receiver, found: Collection[str]) -> list[str]:
        """The addresses that a host led to, when every one of them may be called; raises `InvalidInput`."""
        if not found:
            raise InvalidInput(FIELD, f"{receiver.host} has no address", "Check the name.")
        if not self.trusts(receiver):
            closed = [each for each in found if not self._open(each)]
            if closed:
                raise InvalidInput(
                    FIELD,
                    f"{receiver.host} leads to {closed[0]}, which is not a public address",
                    "Use a public receiver, or have MG_CALLBACK_ALLOWED_NETWORKS name its network.",
                )
        return list(found)

    def _open(self, text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        inner = embedded(address)
        return any(each in network for each in (address, inner) for network in self.networks) or is_public(address)

    @staticmethod
    def _check_name(host: str) -> None:
        if "." not in host or any(host == each or host.endswith(f".{each}") for each in _NEARBY):
            raise InvalidInput(
                FIELD,
                f"{host} is a name for machines nearby",
                "Use a public name, or have MG_CALLBACK_ALLOWED_HOSTS name the host.",
            )


def read_url(url: str) -> Receiver:
    """Take a URL apart; raises `InvalidInput` for all that two readers could take for different places."""
    if len(url) > MAX_URL:
        raise InvalidInput(FIELD, f"is longer than {MAX_URL} characters", "Shorten it.")
    if not _PRINTABLE.fullmatch(url) or "\\" in url:
        raise InvalidInput(
            FIELD,
            "holds spaces, backslashes, control characters or letters beyond ASCII",
            "Percent-encode the path, and give the host in its ASCII form (xn--...).",
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(FIELD, f"is not a URL: {error}", "Give https://host/path.") from None
    scheme = parts.scheme.lower()
    if scheme not in DEFAULT_PORTS:
        raise InvalidInput(FIELD, f"has the scheme {scheme or 'none'}", "Use https.")
    if "@" in parts.netloc:
        raise InvalidInput(FIELD, "names a user", "Leave user and password out; callbacks are signed.")
    if "#" in url:
        raise InvalidInput(FIELD, "has a fragment", "Leave it out: it would never be sent.")
    host = _read_host(parts.hostname or "", bracketed="[" in parts.netloc)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Receiver(scheme, host, DEFAULT_PORTS[scheme] if port is None else port, target)


def is_public(address: IPAddress) -> bool:
    """Whether an address is on the public internet, and so is whatever IPv4 address it carries inside."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _CLOSED_V4)
    if address.scope_id is not None:
        return False
    inner = embedded(address)
    if inner is not address:
        return is_public(inner)
    return address in _PUBLIC_V6 and not any(address in network for network in _CLOSED_V6)


def embedded(address: IPAddress) -> IPAddress:
    """The IPv4 address that an IPv6 one stands for (mapped, NAT64); else the address itself."""
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is None:
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _read_host(host: str, *, bracketed: bool) -> str:
    if bracketed:
        address = _literal(host)
        if address is None or "%" in host:
            raise InvalidInput(FIELD, f"[{host}] is no address", "Give a name.")
        return str(address)
    name = host.removesuffix(".")
    labels = name.split(".")
    if not name or len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidInput(FIELD, f"{host!r} is no host name", "Give a name such as hooks.example.com.")
    if _NUMERIC_LABEL.fullmatch(labels[-1]) and _literal(name) is None:
        raise InvalidInput(FIELD, f"{host} is an odd spelling of an address", "Give a name.")
    return name


def _literal(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _split(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise ValueError(f"{text!r} is no port")
    return int(text)
