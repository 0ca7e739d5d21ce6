"""Whatever a service signs: it is a result that the method may answer, or a fault. And the signatures of the guide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.contract import PROTOCOL_VERSION, ExecutionResult, ResultStatus
from qtg_dagster.domain.errors import InvalidInput, RemoteFault
from qtg_dagster.executors.calling import Answered
from qtg_dagster.executors.message_auth import answer_headers, request_headers
from qtg_dagster.executors.remote.answers import answered, result
from qtg_dagster.executors.remote.documents import MAY_ANSWER, NEEDS_EVIDENCE, Method
from qtg_dagster.secret import Secret

GUIDE = Path(__file__).parents[3] / "docs" / "remote-executors.md"

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner)
)
statuses = st.sampled_from([*ResultStatus]) | st.text(max_size=8)
results = st.fixed_dictionaries(
    {"status": statuses},
    optional={
        "evidence": st.dictionaries(st.text(max_size=8), scalars, max_size=2) | anything,
        "provider_refs": st.dictionaries(st.text(max_size=8), scalars, max_size=2),
        "retry_after_seconds": st.floats() | st.none() | st.text(max_size=3),
        "error_code": st.text(max_size=8) | st.integers(),
    },
)
errors = st.fixed_dictionaries({"code": st.text(max_size=80), "message": st.text(), "nothing_done": anything})
versions = st.just(PROTOCOL_VERSION) | st.text(max_size=4)
documents = st.fixed_dictionaries(
    {"protocol_version": versions}, optional={"result": results | anything, "error": errors | anything}
)
bodies = documents.map(lambda document: json.dumps(document).encode()) | st.binary(max_size=64)


@given(st.sampled_from([Method.SUBMIT, Method.OBSERVE, Method.RECOVER]), st.integers(200, 599), bodies)
def test_any_answer_is_an_allowed_result_or_a_fault(method: Method, status: int, body: bytes) -> None:
    found = judged(Answered(status, body, {"seen": "it"}), method)
    if isinstance(found, ExecutionResult):
        assert status == 200
        assert found.status in MAY_ANSWER[method]
        assert found.evidence or found.status not in NEEDS_EVIDENCE
    elif isinstance(found, InvalidInput) or found.nothing_done:
        said: Any = json.loads(body)
        assert 400 <= status < 500
        assert said["protocol_version"] == PROTOCOL_VERSION
        assert said["error"]["nothing_done"] is True


def judged(answer: Answered, method: Method) -> ExecutionResult | RemoteFault | InvalidInput:
    try:
        return result(answered(answer), method)
    except (RemoteFault, InvalidInput) as fault:
        return fault


SAMPLE_SECRET = Secret("0123456789abcdef0123456789abcdef")
SAMPLE_NONCE = "00112233445566778899aabbccddeeff"


def test_the_guides_sample_signatures_are_right() -> None:
    asked = request_headers(
        SAMPLE_SECRET,
        method="POST",
        path="/observe",
        timestamp=1767225600000,
        nonce=SAMPLE_NONCE,
        idempotency_key="qtg-sample-1",
        body=b"{}",
    )
    answer = answer_headers(SAMPLE_SECRET, nonce=SAMPLE_NONCE, status=200, body=b"{}")
    guide = GUIDE.read_text()
    for headers in (asked, answer):
        assert headers["QTG-Signature"] in guide
    assert SAMPLE_SECRET.expose() in guide


@pytest.mark.parametrize("word", [*(method.path for method in Method), "QTG-Timestamp", "QTG-Nonce", "Idempotency-Key"])
def test_the_guide_names_every_method_and_header(word: str) -> None:
    assert f"`{word}`" in GUIDE.read_text()
