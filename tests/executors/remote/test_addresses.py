"""Where a service may live, and connections that fail before a byte of the request is written."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from qtg_dagster.domain.clock import SystemClock
from qtg_dagster.domain.contract import HealthState, ResultStatus
from qtg_dagster.domain.errors import ConfigurationError, RemoteFault
from qtg_dagster.executors.addresses import ServiceAddress
from qtg_dagster.executors.remote.hosting import Listening, describe, hosting
from qtg_dagster.executors.remote.service import ExecutorService
from qtg_dagster.executors.request_gate import RequestGate
from qtg_dagster.secret import Secret
from tests.executors.remote.conftest import Connect
from tests.executors.remote.orders import KEY, SECRET, BookExecutor, action, order

S = ResultStatus


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "executor")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_file, key_file


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://executor.example.org", "is another machine; use https"),
        ("http://10.0.0.7:8700", "is another machine; use https"),
        ("http://127.0.0.1.example.org", "is another machine; use https"),
        ("https://ada:secret@example.org", "leave out user"),
        ("https://example.org/?key=secret", "leave out user"),
        ("ftp://example.org", "is no service"),
        ("example.org", "is no service"),
        ("https://example.org/a/../b c", "the path may have"),
    ],
)
def test_an_address_where_a_secret_is_not_safe_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as raised:
        ServiceAddress.read(url)
    assert "secret" not in str(raised.value).replace("secrets go elsewhere", "")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://[::1]:1/", "http://localhost:1/x", "https://example.org"]
)
def test_this_machine_and_tls_are_fine(url: str) -> None:
    assert ServiceAddress.read(url).url == url.rstrip("/")


def test_a_short_secret_is_refused(connect: Connect) -> None:
    with pytest.raises(ConfigurationError, match="shorter than 32 bytes"):
        connect("http://127.0.0.1:1", secret=Secret("hunter2"))


async def test_tls_with_the_services_own_authority(
    pair: tuple[Path, Path], book: BookExecutor, connect: Connect
) -> None:
    app = ExecutorService(book, describe(KEY, book), RequestGate([SECRET], SystemClock())).app()
    async with hosting(app, Listening(tls_cert=pair[0], tls_key=pair[1])) as (url, _):
        assert url.startswith("https://")
        trusting = connect(url, ca_file=pair[0])
        assert (await trusting.submit(order(), action())).status is S.ACCEPTED
        assert (await trusting.health()).health_state is HealthState.HEALTHY
        assert len(book.book) == 1


async def test_a_certificate_that_nobody_vouches_for_is_not_sent(
    pair: tuple[Path, Path], book: BookExecutor, connect: Connect
) -> None:
    app = ExecutorService(book, describe(KEY, book), RequestGate([SECRET], SystemClock())).app()
    async with hosting(app, Listening(tls_cert=pair[0], tls_key=pair[1])) as (url, _):
        wary = connect(url)
        found = await wary.submit(order(), action())
        assert (found.status, found.error_code) == (S.NOT_SENT, "REMOTE_NEVER_SENT")
        assert found.evidence["sent"] is False
        assert "certificate" in str(found.error_message)
        by_another_name = connect(url.replace("127.0.0.1", "localhost"), ca_file=pair[0])
        assert (await by_another_name.submit(order(), action())).status is S.NOT_SENT
    assert book.calls == []


async def test_a_service_without_tls_where_tls_is_expected_is_not_sent(service: str, connect: Connect) -> None:
    found = await connect(service.replace("http:", "https:")).submit(order(), action())
    assert found.status is S.NOT_SENT


async def test_a_refused_connection_is_not_sent(connect: Connect) -> None:
    with socket.socket() as bound:  # bound, and nobody listens
        bound.bind(("127.0.0.1", 0))
        remote = connect(f"http://127.0.0.1:{bound.getsockname()[1]}")
        found = await remote.submit(order(), action())
        assert (found.status, found.error_code) == (S.NOT_SENT, "REMOTE_NEVER_SENT")
        with pytest.raises(RemoteFault, match="NEVER_SENT"):
            await remote.recover(order())
        assert (await remote.health()).health_state is HealthState.DOWN


async def test_a_name_that_does_not_resolve_is_not_sent(connect: Connect) -> None:
    found = await connect("https://executor.invalid").submit(order(), action())
    assert found.status is S.NOT_SENT


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "executor.example.org"])  # noqa: S104 - to be refused
def test_a_service_without_tls_keeps_to_this_machine(host: str) -> None:
    with pytest.raises(ConfigurationError, match="open to other machines"):
        Listening(host).check()


def test_half_a_pair_is_refused(pair: tuple[Path, Path]) -> None:
    with pytest.raises(ConfigurationError, match="together"):
        Listening(tls_cert=pair[0]).check()


def test_a_pair_that_does_not_belong_together_is_refused(pair: tuple[Path, Path]) -> None:
    with pytest.raises(ConfigurationError, match="no readable pair"):
        Listening(tls_cert=pair[1], tls_key=pair[0]).check()
