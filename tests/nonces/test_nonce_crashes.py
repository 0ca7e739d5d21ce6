"""`qtg nonce fill` killed at each boundary: whoever asks again goes on, with the same bytes once there are any."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from qtg_dagster.faults import FaultPoint
from tests.nonces.conftest import Bench


async def qtg(bench: Bench, home: Path, *words: str, fault: str = "") -> tuple[int, str]:
    """The command in a process of its own; gives its exit code and what it said."""
    settings = bench.platform.settings
    environment = os.environ | {
        "DATABASE_URL": settings.database_url,
        "MG_SIGNER_DATABASE_URL": settings.signer_database_url,
        "MG_INVENTORY_FILE": str(bench.world.inventory_file),
        "QTG_HOME": str(home),
        "QTG_FAULT": fault,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "qtg_dagster", *words,
        env=environment, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


def fill(bench: Bench) -> tuple[str, ...]:
    return ("nonce", "fill", *bench.key, "0", "--by", "olivia", "--reason", "it holds up the others", "--yes")


@pytest.mark.parametrize(
    ("point", "left"),
    [
        (FaultPoint.NONCE_FILL_ORDERED, [(0, "ORDERED")]),
        (FaultPoint.NONCE_FILL_PREPARED, [(0, "PREPARED")]),
        (FaultPoint.NONCE_FILL_SENT, [(0, "PREPARED")]),
    ],
)
async def test_killed_at_a_boundary_the_next_who_asks_goes_on(
    bench: Bench, tmp_path: Path, point: FaultPoint, left: list[tuple[int, str]]
) -> None:
    await bench.strand()
    await bench.call("evm_setAutomine", False)
    code, said = await qtg(bench, tmp_path, *fill(bench), fault=f"{point}:kill")
    assert code == -signal.SIGKILL, said
    assert await bench.fillers() == left
    assert await bench.count("pending") == (1 if point is FaultPoint.NONCE_FILL_SENT else 0)
    [before] = await bench.rows("SELECT tx_hash FROM qtg.evm_nonce_fillers")
    assert (await bench.reservation())["reservation_state"] == "FILLING", "its holder has lost it already"

    code, said = await qtg(bench, tmp_path, *fill(bench))
    assert code == 0, said
    assert "goes on with filler 1" in said
    assert await bench.fillers() == [(0, "SENT")]
    [after] = await bench.rows("SELECT tx_hash, ordered_by FROM qtg.evm_nonce_fillers")
    assert before["tx_hash"] in (None, after["tx_hash"])
    await bench.mine(4)
    code, said = await qtg(bench, tmp_path, *fill(bench))
    assert (code, f"filled for good by {after['tx_hash']}" in said) == (0, True), said
    signatures = await bench.rows("SELECT purpose FROM qtg.signer_journal ORDER BY purpose")
    assert [row["purpose"] for row in signatures] == ["effect", "fill"]
    assert await bench.paid() == 0


async def test_the_list_says_which_node_why_and_what_to_do_and_a_dry_run_signs_nothing(
    bench: Bench, tmp_path: Path
) -> None:
    request_id = await bench.strand()
    name = " ".join((*bench.key, "0"))
    code, said = await qtg(bench, tmp_path, "nonce", "list")
    assert code == 0, said
    for part in (f"{name}  DEAD, RESERVED", f"transfer of {request_id}, CANCELLED", "`qtg nonce fill`"):
        assert part in said
    code, said = await qtg(bench, tmp_path, *fill(bench)[:-1], "--dry-run")
    assert (code, f"will sign: 0 from {bench.world.treasury} to itself under nonce 0" in said) == (0, True), said
    code, said = await qtg(bench, tmp_path, *fill(bench)[:-1])
    assert (code, "Aborted" in said) == (1, True), "nobody said yes"
    assert await bench.fillers() == []
    assert len(bench.signed) == 1
    code, said = await qtg(bench, tmp_path, "nonce", "list", "--chain", "eip155:1")
    assert (code, said) == (0, "no nonce is held\n")


async def test_what_is_not_to_be_filled_is_refused_in_a_line(bench: Bench, tmp_path: Path) -> None:
    code, said = await qtg(bench, tmp_path, *fill(bench))
    assert code == 1
    where = f"nonce 0 of {bench.world.treasury} on {bench.world.chain}"
    assert said == f"Error: {where} was never reserved here; see `qtg nonce list`\n"
    await bench.die_after_signing()
    code, said = await qtg(bench, tmp_path, *fill(bench))
    assert code == 1
    assert "is HELD, not to be filled" in said
