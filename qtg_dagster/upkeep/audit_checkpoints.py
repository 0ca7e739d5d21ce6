"""Checkpoints in a folder: one signed file each, written whole or not at all, and never written over."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qtg_dagster.domain.audit_chain import Break, BreakKind, Mark
from qtg_dagster.domain.audit_checkpoint import FORMAT, Checkpoint, SignedCheckpoint, named_in, parse_checkpoint
from qtg_dagster.domain.errors import ConfigurationError, Conflict
from qtg_dagster.settings import Settings
from qtg_dagster.signatures import is_signed, public_key_of, read_private_key, sign

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_MOST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class CheckpointPlace:
    """Where checkpoints are written, and the key that signs them."""

    folder: Path
    key: Ed25519PrivateKey

    @property
    def public_key(self) -> str:
        return public_key_of(self.key)


def checkpoint_place(settings: Settings) -> CheckpointPlace | None:
    """Where these settings want checkpoints; None when they want none.

    Raises `ConfigurationError` for half of it, and for a folder that is not there: one that is made anew where another
    one was mounted knows nothing of what was signed before.
    """
    folder, source = settings.audit_checkpoint_folder, settings.audit_checkpoint_key
    if folder is None and source is None:
        return None
    if folder is None or source is None:
        raise ConfigurationError("MG_AUDIT_CHECKPOINT_FOLDER and MG_AUDIT_CHECKPOINT_KEY: set both or none of them")
    if not folder.is_dir():
        raise ConfigurationError(f"MG_AUDIT_CHECKPOINT_FOLDER: {folder} is not there; make it, or mount it")
    pem = source.read("MG_AUDIT_CHECKPOINT_KEY").expose().encode()
    return CheckpointPlace(folder, read_private_key(pem, "MG_AUDIT_CHECKPOINT_KEY"))


def write_checkpoint(place: CheckpointPlace, checkpoint: Checkpoint) -> Path:
    """Sign a checkpoint and put it there durably; the same row again leaves the file that stands.

    Raises `Conflict` when a file of this name knows another row: then the chain is not what it was.
    """
    signature = sign(FORMAT, checkpoint.signed_bytes(), place.key)
    signed = SignedCheckpoint(**checkpoint.model_dump(), public_key=place.public_key, signature=signature)
    file = place.folder / checkpoint.file_name
    draft = place.folder / f".{checkpoint.file_name}.{os.getpid()}"
    _write_durably(draft, signed.file_bytes())
    try:
        os.link(draft, file)  # unlike a rename, it does not replace
    except FileExistsError:
        standing = parse_checkpoint(_read(file), str(file))
        if standing.head != checkpoint.head:
            raise Conflict(f"{file} was signed for another row {checkpoint.sequence} than the chain has now") from None
    finally:
        draft.unlink()
    _sync_folder(place.folder)
    return file


def read_marks(
    paths: Sequence[Path], network_class: str, public_keys: Sequence[str], *, least: int = 0
) -> tuple[list[Mark], list[Break]]:
    """The checkpoints of a chain among these files and folders, from that row on: the rightly signed, and the others.

    Raises `ConfigurationError` for a file that is none.
    """
    marks: list[Mark] = []
    wrong: list[Break] = []
    for file in _files(paths, network_class, least):
        signed = parse_checkpoint(_read(file), str(file))
        checkpoint = signed.checkpoint()
        if checkpoint.network_class != network_class or checkpoint.sequence < least:
            continue
        content, signature = checkpoint.signed_bytes(), bytes.fromhex(signed.signature)
        if any(is_signed(FORMAT, content, signature, key) for key in public_keys):
            marks.append(checkpoint.mark())
        else:
            detail = f"{file} was changed, or not signed by {' or '.join(public_keys)}"
            wrong.append(Break(network_class, checkpoint.sequence, BreakKind.NOT_AS_SIGNED, detail))
    return marks, wrong


def _files(paths: Sequence[Path], network_class: str, least: int) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        named = [(named_in(each.name), each) for each in path.iterdir()]
        ours = sorted((name, each) for name, each in named if name is not None and name[0] == network_class)
        found += [each for name, each in ours if name[1] >= least]
    return found


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(_MOST_BYTES)
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read ({error.strerror or type(error).__name__})") from None


def _write_durably(file: Path, content: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
