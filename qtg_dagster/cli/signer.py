"""`qtg signer`: signers as services of their own, and the signed files that say what they may sign."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qtg_dagster.cli.serving import listening_options, serve_until_stopped

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from qtg_dagster.executors.remote.hosting import Listening
    from qtg_dagster.executors.signers.policy_file import PolicyFile
    from qtg_dagster.inventory import SignerPolicy
    from qtg_dagster.secret import Secret

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group()
def signer() -> None:
    """Host a signer away from QTG, and sign or verify the policies of signers."""


@signer.command()
@click.argument("key")
@listening_options(8800)
def serve(
    key: str, host: str, port: int, secret_names: tuple[str, ...], tls_cert: Path | None, tls_key: Path | None
) -> None:
    """Serve the signer KEY of this machine's inventory, for a `remote` signer elsewhere, until stopped."""
    from qtg_dagster.executors.remote.hosting import Listening
    from qtg_dagster.secret import SecretSource

    where = Listening(host, port, tls_cert, tls_key)
    where.check()
    secrets = [SecretSource(env=name).read("--secret-env") for name in secret_names]
    asyncio.run(_serving(key, where, secrets))


async def _serving(key: str, where: Listening, secrets: list[Secret]) -> None:
    from qtg_dagster.composition import open_platform
    from qtg_dagster.domain.clock import SystemClock
    from qtg_dagster.executors.request_gate import RequestGate
    from qtg_dagster.executors.signers.service import SigningService
    from qtg_dagster.host.environment import machine_settings

    gate = RequestGate(secrets, SystemClock())
    async with open_platform(machine_settings(), pool_size=4) as platform:
        service = SigningService(platform.signers.resolve(key), gate)
        await serve_until_stopped(service.app(), where, key)


@signer.command("sign-policy")
@click.argument("file", type=_FILE)
@click.option(
    "--key", "key_file", type=_FILE, required=True, help="ed25519 private key, PEM; keep it off QTG's machines"
)
@click.option(
    "--signature", type=click.Path(path_type=Path, dir_okay=False), help="where to write; FILE.sig by default"
)
def sign_policy(file: Path, key_file: Path, signature: Path | None) -> None:
    """Check the policy in FILE, sign it, and show the public key that the inventory must name."""
    from qtg_dagster.domain.errors import ConfigurationError
    from qtg_dagster.executors.signers import policy_file
    from qtg_dagster.signatures import public_key_of

    key = _private_key(key_file)
    try:
        content = policy_file.read_bounded(file)
        made = policy_file.sign_policy(content, key)
    except ConfigurationError as error:
        raise click.ClickException(f"{file}: {error}") from error
    target = signature or policy_file.signature_path(file)
    target.write_text(made + "\n")
    _show(policy_file.parse_policy(content))
    click.echo(f"signed: {target}\npublic_key: {public_key_of(key)}")


@signer.command("verify-policy")
@click.argument("file", type=_FILE, required=False)
@click.option("--public-key", help="64 hex digits, as sign-policy showed them; needed with FILE")
@click.option("--signature", type=_FILE, help="FILE.sig by default")
def verify_policy(file: Path | None, public_key: str | None, signature: Path | None) -> None:
    """Check FILE against its signature; without FILE, every policy file that the inventory names."""
    from qtg_dagster.domain.errors import ConfigurationError
    from qtg_dagster.executors.signers import policy_file
    from qtg_dagster.signatures import PUBLIC_KEY

    if file is None:
        _verify_inventory()
        return
    if PUBLIC_KEY.fullmatch(public_key or "") is None:
        raise click.BadParameter("give 64 hex digits", param_hint="--public-key")
    try:
        signatures = policy_file.read_bounded(signature or policy_file.signature_path(file))
        found = policy_file.verify_policy(policy_file.read_bounded(file), signatures, str(public_key))
    except ConfigurationError as error:
        raise click.ClickException(f"{file}: {error}") from error
    _show(found)
    click.echo("rightly signed")


def _verify_inventory() -> None:
    """Ask each source as its signer does before a signature."""
    from qtg_dagster.domain.errors import SigningRefused
    from qtg_dagster.executors.signers.policy_source import SignedPolicy
    from qtg_dagster.host.environment import machine_settings

    entries = {key: each.policy_file for key, each in machine_settings().inventory.signers.items()}
    named = {key: SignedPolicy(key, entry) for key, entry in entries.items() if entry is not None}
    wrong = 0
    for key, source in named.items():
        try:
            policy = asyncio.run(source.current())
        except SigningRefused as refusal:
            wrong += 1
            click.echo(str(refusal))
        else:
            click.echo(_line(key, policy))
    click.echo(f"{len(named)} signers with a policy file, {wrong} of them without one to go by")
    if wrong:
        raise SystemExit(1)


def _show(found: PolicyFile) -> None:
    click.echo(f"serial {found.serial}")
    for key, policy in found.signers.items():
        click.echo(_line(key, policy))


def _line(key: str, policy: SignerPolicy) -> str:
    caps = ", ".join(f"{cap} {asset}" for asset, cap in policy.caps.items()) or "nothing"
    return f"{key}: at most {caps} at once to {', '.join(policy.destinations) or 'nobody'}; gas {policy.max_fee_native}"


def _private_key(file: Path) -> Ed25519PrivateKey:
    from qtg_dagster.domain.errors import ConfigurationError
    from qtg_dagster.signatures import read_private_key

    pem = file.read_bytes()
    password = click.prompt("passphrase", hide_input=True).encode() if b"ENCRYPTED" in pem else None
    try:
        return read_private_key(pem, str(file), password)
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from None
