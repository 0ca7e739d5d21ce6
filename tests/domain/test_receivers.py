"""Where callbacks may go, and every spelling of where they may not."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.receivers import ReceiverPolicy, is_public, read_url

POLICY = ReceiverPolicy()

PRIVATE = [
    "0.0.0.0",  # noqa: S104
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:5db8:d822::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "2606:4700::1%eth0",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    "8.8.8.8",
    "93.184.216.34",
    "172.15.0.1",
    "172.32.0.1",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]


@pytest.mark.parametrize("text", PRIVATE)
def test_no_address_that_is_not_public_is_called(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))
    if "%" not in text:
        host = f"[{text}]" if ":" in text else text
        with pytest.raises(InvalidInput, match="not a public address"):
            POLICY.read(f"https://{host}/")
    with pytest.raises(InvalidInput, match="not a public address"):
        POLICY.check_addresses(read_url("https://hooks.example.com/"), ["8.8.8.8", text])


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_called(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))
    host = f"[{text}]" if ":" in text else text
    assert POLICY.read(f"https://{host}/").address == ipaddress.ip_address(text)
    assert POLICY.check_addresses(read_url("https://hooks.example.com/"), [text]) == [text]


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_in_all_its_ipv6_clothes(address: ipaddress.IPv4Address) -> None:
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        dressed = ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) + int(address))
        assert is_public(dressed) == is_public(address)


@given(st.ip_addresses())
def test_whatever_python_calls_private_is_refused(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Two lists, made by different people: ours may refuse more, never less."""
    if address.is_private or address.is_loopback or address.is_link_local or address.is_multicast:
        carries = isinstance(address, ipaddress.IPv6Address) and (
            address.ipv4_mapped is not None or address in ipaddress.IPv6Network("64:ff9b::/96")
        )
        assert carries or not is_public(address)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7f.1",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "127.0.0.01",
        "0x",
        "1.2.3.4.5",
        "foo.0x7f",
        "256.256.256.256",
        "127.1.",
    ],
)
def test_odd_spellings_of_addresses_are_refused(host: str) -> None:
    with pytest.raises(InvalidInput):
        POLICY.read(f"https://{host}/")


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", "localhost.", "a.localhost", "postgres", "db.internal", "metadata.google.internal",
     "printer.local", "nas.lan", "x.home.arpa", "127.0.0.1."],
)  # fmt: skip
def test_names_of_machines_nearby_are_refused(host: str) -> None:
    with pytest.raises(InvalidInput):
        POLICY.read(f"https://{host}/hook")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://hooks.example.com/", "not https"),
        ("ftp://hooks.example.com/", "scheme"),
        ("//hooks.example.com/", "scheme"),
        ("https:hooks.example.com", "host"),
        ("https://", "host"),
        ("https:///path", "host"),
        ("https://user@hooks.example.com/", "user"),
        ("https://user:pw@hooks.example.com/", "user"),
        ("https://@hooks.example.com/", "user"),
        ("https://hooks.example.com@127.0.0.1/", "user"),
        ("https://hooks.example.com/#part", "fragment"),
        ("https://hooks.example.com/#", "fragment"),
        ("https://hooks.example.com:22/", "port 22"),
        ("https://hooks.example.com:0/", "port 0"),
        ("https://hooks.example.com:99999/", "not a URL"),
        ("https://hooks.example.com:x/", "not a URL"),
        ("https://hooks.example.com\\@127.0.0.1/", "backslashes"),
        ("https://hooks.example.com/\r\nHost: x", "control"),
        ("https://hooks.example.com/\t", "control"),
        (" https://hooks.example.com/", "spaces"),
        ("https://hööks.example.com/", "ASCII"),
        ("https://\uff11\uff12\uff17.0.0.1/", "ASCII"),
        ("https://hooks.example\u3002com/", "ASCII"),
        ("https://127.0.0.1\u2024example.com/", "ASCII"),
        ("https://%6c%6f%63alhost/", "host name"),
        ("https://a..example.com/", "host name"),
        ("https://-a.example.com/", "host name"),
        (f"https://{'a' * 64}.example.com/", "host name"),
        ("https://[::1/", "not a URL"),
        ("https://[::1%25lo]/", "no address"),
        ("https://[v1.x]/", "address|URL"),
        ("https://hooks.example.com/" + "a" * 2048, "longer"),
    ],
)
def test_a_url_that_two_readers_could_read_differently_is_refused(url: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as refused:
        POLICY.read(url)
    assert refused.value.field == "callback_url"


@pytest.mark.parametrize(
    ("url", "spelled"),
    [
        ("https://hooks.example.com", "https://hooks.example.com/"),
        ("HTTPS://Hooks.Example.COM:443/In?A=b%20c", "https://hooks.example.com/In?A=b%20c"),
        ("https://hooks.example.com.:8443/", "https://hooks.example.com:8443/"),
        ("https://xn--hks-tna.example.com/", "https://xn--hks-tna.example.com/"),
        ("https://[2606:4700:0::1111]/", "https://[2606:4700::1111]/"),
        ("https://hooks.example.com/?x=1", "https://hooks.example.com/?x=1"),
        ("https://hooks_1.example.com//a//b", "https://hooks_1.example.com//a//b"),
    ],
)
def test_a_url_has_one_spelling(url: str, spelled: str) -> None:
    receiver = POLICY.read(url)
    assert receiver.url == spelled
    assert POLICY.read(receiver.url) == receiver


def test_the_operators_hosts_may_be_anywhere_and_no_other_host_gains_by_it() -> None:
    policy = ReceiverPolicy.parse("127.0.0.1:9000, receiver", "10.1.0.0/16, fd00::/8", "443")
    assert policy.read("http://127.0.0.1:9000/").authority == "127.0.0.1:9000"
    assert policy.read("http://receiver:1234/").authority == "receiver:1234"
    assert policy.read("https://10.1.2.3/").port == 443
    assert policy.read("https://[fd00::1]/").port == 443
    for url in ("http://127.0.0.1:9001/", "https://127.0.0.2/", "http://10.1.2.3/", "https://10.2.0.1/"):
        with pytest.raises(InvalidInput):
            policy.read(url)
    hooks = read_url("https://hooks.example.com/")
    assert policy.check_addresses(hooks, ["::ffff:10.1.0.1"])
    with pytest.raises(InvalidInput):
        policy.check_addresses(hooks, ["10.1.0.1", "10.2.0.1"])


@pytest.mark.parametrize(("networks", "ports"), [("10.0.0.1/8", ""), ("here", ""), ("", "0"), ("", "https")])
def test_settings_that_say_nothing_are_refused(networks: str, ports: str) -> None:
    with pytest.raises(ValueError, match=networks or ports):
        ReceiverPolicy.parse("", networks, ports)


@given(st.text(max_size=60))
def test_any_text_is_a_receiver_or_a_refusal(text: str) -> None:
    for url in (text, f"https://{text}", f"https://hooks.example.com/{text}"):
        try:
            receiver = POLICY.read(url)
        except InvalidInput:
            continue
        assert POLICY.read(receiver.url) == receiver
