"""What a venue was told of a person is not seen in what it sends back, and nothing else of an answer is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.lanes.cex.hidden import Hidden, texts_in

names = st.text(st.characters(categories=("L",)), min_size=3, max_size=12)


@given(names, st.sampled_from(["{} is not known", "reason: '{}'", "({})", "{}"]))
def test_a_name_is_gone_from_text_and_json(name: str, around: str) -> None:
    hidden = Hidden([name])
    assert name not in hidden.in_text(around.format(name)).replace("[redacted]", "")
    body = {"info": around.format(name), "rows": [{"note": around.format(name)}]}
    assert name not in "".join(texts_in(hidden.in_json(body))).replace("[redacted]", "")


@given(names.filter(lambda name: not name.isascii()))
def test_a_name_is_gone_however_json_spells_it(name: str) -> None:
    raw = json.dumps({"info": name})
    assert json.dumps(name)[1:-1] not in Hidden([name]).in_text(raw)


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("12", "the 12 of 2026"),
        ("12345", "id 12345"),
        ("US", "USDT is US"),
        ("Ann", "Annual"),
        ("", "anything"),
    ],
)
def test_what_tells_nothing_of_anybody_stays(text: str, stays: str) -> None:
    assert Hidden([text]).in_text(stays) == stays


def test_names_of_fields_and_numbers_stay() -> None:
    body = {"info": "info", "id": 1234567, "ok": True, "none": None}
    assert Hidden(["info", "1234567"]).in_json(body) == {**body, "info": "[redacted]"}


def test_the_longest_is_taken_first_and_case_means_nothing() -> None:
    assert Hidden(["Anna", "Anna Maria"]).in_text("ANNA MARIA; anna") == "[redacted]; [redacted]"


@given(
    st.recursive(
        st.one_of(st.text(), st.integers(), st.booleans()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_texts_of_a_document_are_all_found(document: Any) -> None:
    found = list(texts_in(document))
    assert all(isinstance(text, str) for text in found)
    assert len(found) == _leaves(document)


def _leaves(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_leaves, value.values()))
    if isinstance(value, list):
        return sum(map(_leaves, value))
    return 0 if isinstance(value, bool) else 1
