"""Where a service of QTG may live: behind TLS, or on this very machine."""

from __future__ import annotations

import ipaddress
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from qtg_dagster.domain.errors import ConfigurationError

_PLAIN_PATH = re.compile(r"(/[A-Za-z0-9._~\-]+)*")


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """A base URL that has been judged; get one by `read`."""

    scheme: str
    origin: str
    path: str
    ca_file: Path | None

    @property
    def url(self) -> str:
        return self.origin + self.path

    @classmethod
    def read(cls, url: str, *, ca_file: Path | None = None, field: str = "url") -> ServiceAddress:
        """Take a base URL apart; raises `ConfigurationError` naming `field` when a secret would not be safe there."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"{field}: {parts.scheme}://... is no service; give https://host[:port][/path]")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ConfigurationError(f"{field}: leave out user, password, query and fragment; secrets go elsewhere")
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise ConfigurationError(f"{field}: {parts.hostname} is another machine; use https")
        path = parts.path.rstrip("/")
        if not _PLAIN_PATH.fullmatch(path):
            raise ConfigurationError(f"{field}: the path may have letters, digits and -._~ between slashes only")
        return cls(parts.scheme, f"{parts.scheme}://{parts.netloc}", path, ca_file)

    def tls_context(self) -> ssl.SSLContext | None:
        """What checks the service's certificate, by `ca_file` or the system's authorities; None without TLS."""
        if self.scheme != "https":
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"ca_file: {self.ca_file} is not a readable file of PEM certificates") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def is_loopback(host: str) -> bool:
    """Whether the host is this machine by its very name."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
