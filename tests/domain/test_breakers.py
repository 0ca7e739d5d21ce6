"""Which breakers cover a node, what a breaker can stand on, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from qtg_dagster.domain.breakers import Breaker, check_scope, known_scopes, node_scopes
from qtg_dagster.domain.errors import InvalidInput

HELD = Breaker(1, "lane:cex", datetime(2026, 11, 30, 7, tzinfo=UTC), "grace", "venue down", held=1, let_through=0)


@pytest.mark.parametrize(
    ("executor_key", "config", "scopes"),
    [
        (None, {}, ["network:sandbox"]),
        ("exec.cex.withdraw", {"venue": "alpha"}, ["lane:cex", "network:sandbox", "venue:alpha"]),
        ("exec.evm.transfer", {"account": "treasury"}, ["chain:eip155:1", "lane:evm", "network:sandbox"]),
        (
            "exec.evm.transfer",
            {"chain": "eip155:1", "destination_chain": "eip155:10", "destination_venue": "beta"},
            ["chain:eip155:1", "chain:eip155:10", "lane:evm", "network:sandbox", "venue:beta"],
        ),
        ("exec.evm.transfer", {"account": "0xstranger"}, ["lane:evm", "network:sandbox"]),
        ("exec.evm.transfer", {"chain": "$ref:first.chain"}, ["lane:evm", "network:sandbox"]),
        ("exec.evm.transfer", {"venue": "", "chain": 7, "revenue": "x"}, ["lane:evm", "network:sandbox"]),
    ],
)
def test_a_node_is_covered_by_all_that_its_config_names(
    executor_key: str | None, config: dict[str, object], scopes: list[str]
) -> None:
    assert list(node_scopes("sandbox", executor_key, config, {"treasury": "eip155:1"})) == scopes


def test_what_is_not_here_is_refused_with_what_is() -> None:
    known = known_scopes("sandbox", ["exec.evm.transfer", "exec.evm.receive", "exec.cex.send"], ["alpha"], ["eip155:1"])
    assert known == ("network:sandbox", "lane:cex", "lane:evm", "venue:alpha", "chain:eip155:1")
    assert [check_scope(each, known) for each in known] == list(known)
    for wrong in ("network:mainnet", "lane", "LANE:cex", "venue:beta", ""):
        with pytest.raises(InvalidInput, match="Use one of network:sandbox, lane:cex"):
            check_scope(wrong, known)


def test_a_breaker_says_since_when_by_whom_why_and_what_it_holds_back() -> None:
    opened = "open since 2026-11-30 07:00:00 UTC by grace: venue down; "
    assert HELD.told() == opened + "holds back 1 node"
    released = replace(HELD, held=12, let_through=3, released_at=HELD.opened_at, released_by="ada", per_minute=6)
    assert released.told() == opened + "released by ada at 6 a minute, 3 let through, 12 nodes to go"
