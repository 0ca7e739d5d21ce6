"""`./qtg`, the CI script, and the bootstrap that needs nothing but Python."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qtg_dagster.host import bootstrap
from qtg_dagster.host.paths import project_root

LAUNCHER = project_root() / "qtg"


def test_the_scripts_parse() -> None:
    for shell, script in (("sh", LAUNCHER), ("bash", project_root() / ".ci" / "run")):
        subprocess.run([shell, "-n", str(script)], check=True)
        assert os.access(script, os.X_OK)


def test_the_bootstrap_imports_the_standard_library_only() -> None:
    tree = ast.parse(Path(bootstrap.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose environment is complete: its Python shows what it is called with."""
    root = tmp_path / "a checkout"
    (root / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(LAUNCHER, root / "qtg")
    for name in ("pyproject.toml", "constraints.txt"):
        (root / name).write_text("")
    (root / "qtg_dagster" / "host").mkdir(parents=True)
    (root / "qtg_dagster" / "host" / "bootstrap.py").write_text(
        "import pathlib, sys\n"
        "print('installing')\n"
        "pathlib.Path(sys.argv[1], '.venv', 'qtg-installed').write_text(sys.argv[2])\n"
    )
    shown = f'#!/bin/sh\nif [ "$1" = -m ]; then printf "<%s>" "$@"; else exec "{sys.executable}" "$@"; fi\n'
    (root / ".venv" / "bin" / "python").write_text(shown)
    (root / ".venv" / "bin" / "python").chmod(0o755)
    return root


def launch(root: Path, *arguments: str) -> str:
    done = subprocess.run([root / "qtg", *arguments], cwd="/", capture_output=True, text=True, check=True)
    return done.stdout


def test_it_installs_once_and_again_when_the_pins_change(checkout: Path) -> None:
    assert launch(checkout, "up", "two words") == "installing\n<-m><qtg_dagster><up><two words>"
    assert launch(checkout, "up") == "<-m><qtg_dagster><up>"
    (checkout / "constraints.txt").write_text("one==2\n")
    assert launch(checkout, "up").startswith("installing")


def test_without_a_fit_python_it_says_what_to_install(checkout: Path) -> None:
    (checkout / ".venv" / "bin" / "python").unlink()
    tools = checkout / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "cat", "cksum"):
        (tools / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run([checkout / "qtg"], env={"PATH": str(tools)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "install one" in done.stderr


def test_a_simultaneous_start_finds_the_work_done(tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "qtg-installed").write_text("key")
    assert bootstrap.main(tmp_path, "key") == 0
    assert not (tmp_path / ".venv" / "bin").exists()
