"""A secret survives in nothing that is written down, whatever it is wrapped in."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.redaction import MAX_TEXT, REDACTED, redact, redact_text

CANARY = "cAnArY7f3e9d1b5a2c8046"

SECRET_NAMES = [
    "secret", "api_secret", "apiSecret", "API-KEY", "apikey", "X-MBX-APIKEY", "password", "passwd", "passphrase",
    "private_key", "privateKey", "private-key", "signature", "Authorization", "Cookie", "Set-Cookie", "mnemonic",
    "access_token", "refreshToken", "refresh-token", "seed_phrase", "credentials", "jwt", "session_id",
    "beneficiaryName", "questionnaire", "client_secret", "okx-access-passphrase", "auth_token",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET_NAMES)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"deep": ({"er": v},)}])
def test_a_value_under_a_secret_name_is_gone_at_any_depth(name: str, wrap: Any) -> None:
    for value in (CANARY, [CANARY], {"inner": CANARY}, CANARY.encode()):
        assert CANARY not in json.dumps(redact(wrap({name: value})))


SHAPES = [
    "{name}={canary}", "{name}={canary}&x=1", "GET /api?a=1&{name}={canary} failed", "{name}: {canary}",
    '{{"{name}": "{canary}"}}', "{{'{name}': '{canary}', 'b': 1}}", '{{"{name}":"{canary} with a space"}}',
    '"{{\\"{name}\\": \\"{canary}\\"}}"', "ValueError({name}={canary!r})", "[{name}: {canary}]", "{name} = {canary}",
]  # fmt: skip


@pytest.mark.parametrize("name", [*SECRET_NAMES, "token", "pwd"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_secret_inside_text_is_gone(shape: str, name: str) -> None:
    text = shape.format(name=name, canary=CANARY)
    assert CANARY not in redact_text(text), text
    assert CANARY not in json.dumps(redact({"error": RuntimeError(text), "list": [text]}))


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://app:{CANARY}@db:5432/qtg",
        f"postgresql+psycopg://app:{CANARY}@/qtg?host=/tmp",
        f"https://user:{CANARY}@rpc.example/",
        f"redis://:{CANARY}@cache:6379",
        f"HTTPSConnectionPool: Max retries exceeded with url: /v3/{CANARY}abcdef",
        f"Authorization: Bearer {CANARY}",
        f"authorization: Basic {CANARY}==",
        f"{{'Authorization': 'Bearer {CANARY}'}}",
        f"-----BEGIN EC PRIVATE KEY-----\n{CANARY}\n{CANARY}\n-----END EC PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{CANARY}",
        "x" * (MAX_TEXT - 20) + f"&signature={CANARY}",
        urlencode({"timestamp": 1, "signature": CANARY}),
    ],
)
def test_known_carriers_of_secrets_are_cleaned(text: str) -> None:
    assert CANARY not in redact_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "withdrawal 7213749834 of 12.5 USDC to 0xab5801a7d398351b8be11c439e05c5b3259aec9b is pending",
        "Insufficient balance: have 10, want 12.5",
        "tx 0x" + "ab" * 32 + " at block 19000000",
        "token USDC on eip155:1 is not listed",
        "GET http://127.0.0.1:8545/venue_a/sapi/v1/capital/withdraw/history answered 503",
        "2026-03-29T01:30:00Z code=-4026",
    ],
)
def test_evidence_is_left_as_it_was(text: str) -> None:
    assert redact_text(text) == text
    assert redact({"message": text}) == {"message": text}


@pytest.mark.parametrize("value", [1, True, None, 0, "plain", [1, "a"], {"tx_hash": "0xab", "asset": "USDC"}])
def test_plain_values_keep_their_kind(value: Any) -> None:
    assert redact(value) == value


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.decimals() | st.binary() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_whatever_is_redacted_can_be_stored_as_json(value: Any) -> None:
    text = json.dumps(redact(value), allow_nan=False)
    assert "\\u0000" not in text
    text.encode("utf-8")
    json.loads(text)


@pytest.mark.parametrize("text", ["a\x00b", "half \ud83d character"])
def test_what_the_database_cannot_hold_is_replaced(text: str) -> None:
    for stored in (redact_text(text), json.dumps(redact({text: text}), ensure_ascii=False)):
        assert "\x00" not in stored
        stored.encode("utf-8")


@given(st.text())
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redact_text(redact_text(text)) == redact_text(text)


def test_long_text_is_cut_and_says_so() -> None:
    cut = redact_text("a" * (MAX_TEXT + 5))
    assert cut == "a" * MAX_TEXT + "... [5 more]"
    assert REDACTED == "[redacted]"
