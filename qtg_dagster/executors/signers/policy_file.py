"""A policy in a file with a detached ed25519 signature: who may deploy QTG need not be who sets its signers' limits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from qtg_dagster.domain.chains import evm_address
from qtg_dagster.domain.errors import ConfigurationError, InvalidInput
from qtg_dagster.domain.plans import Frozen
from qtg_dagster.inventory import SignerKey, SignerPolicy
from qtg_dagster.signatures import SIGNATURE, is_signed, sign

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT = "qtg.signer-policy.v1"
_MOST_BYTES = 1_048_576
_MOST_SIGNATURES = 16
_PLAIN = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]+)?")


class PolicyFile(Frozen):
    """The file's content. `serial` grows with each version, so that an inventory can refuse older ones."""

    format: Literal["qtg.signer-policy.v1"]
    serial: int = Field(ge=1)
    signers: dict[SignerKey, SignerPolicy] = Field(description="signer key -> its policy; others sign nothing")

    @model_validator(mode="after")
    def _plain_values(self) -> Self:
        for key, policy in self.signers.items():
            for destination in policy.destinations:
                evm_address(destination, field=f"signers.{key}.destinations")
            numbers = (*policy.caps.items(), *policy.native_usd.items(), ("max_fee_native", policy.max_fee_native))
            for name, amount in numbers:
                if not _PLAIN.fullmatch(amount):
                    raise ValueError(f"signers.{key}: {name} {amount!r} is not a plain decimal number as text")
        return self


def signature_path(file: Path) -> Path:
    """Where a file's signature is, unless another place is named."""
    return file.with_name(file.name + ".sig")


def read_bounded(path: Path) -> bytes:
    """The file's bytes; raises `ConfigurationError` for one that is missing, cannot be read or is too long."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror or type(error).__name__})") from None
    if len(content) > _MOST_BYTES:
        raise ConfigurationError(f"{path}: longer than {_MOST_BYTES} bytes")
    return content


def sign_policy(content: bytes, key: Ed25519PrivateKey) -> str:
    """The signature as 128 hex digits; raises `ConfigurationError` for a file that no signer could use."""
    parse_policy(content)
    return sign(FORMAT, content, key)


def verify_policy(content: bytes, signatures: bytes, public_key: str) -> PolicyFile:
    """The policy, if one of the signatures (one a line) is the key's for exactly this content.

    Several lines let a new signature stand beside the old one before the file itself is replaced. Raises
    `ConfigurationError`.
    """
    for signature in _signatures(signatures):
        if is_signed(FORMAT, content, signature, public_key):
            return parse_policy(content)
    raise ConfigurationError(f"no signature by {public_key} fits this content: it was changed, or signed by another")


def parse_policy(content: bytes) -> PolicyFile:
    """YAML or JSON; raises `ConfigurationError` naming what is wrong."""
    import yaml

    try:
        return PolicyFile.model_validate(yaml.load(content, Loader=_loader()))  # noqa: S506 - made of the safe one
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "nested too deep"
        where = f"line {mark.line + 1}" if mark else "the file"
        raise ConfigurationError(f"{where}: not YAML or JSON ({problem})") from None
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        wrong = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}" for each in found)
        raise ConfigurationError(wrong) from None
    except InvalidInput as error:
        raise ConfigurationError(str(error)) from None


def _signatures(text: bytes) -> list[bytes]:
    lines = text.decode("ascii", "replace").split()
    if not lines or len(lines) > _MOST_SIGNATURES or not all(SIGNATURE.fullmatch(line) for line in lines):
        raise ConfigurationError(f"the signature file: not 1 to {_MOST_SIGNATURES} lines of 128 hex digits")
    return [bytes.fromhex(line) for line in lines]


def _loader() -> Any:
    """YAML's safe loader, but a key that stands twice is an error: a reader sees one value, the parser the other."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for key in keys:
                if keys.count(key) > 1:
                    raise yaml.constructor.ConstructorError(None, None, f"{key!r} stands twice", node.start_mark)
            return super().construct_mapping(node, deep)

    return Loader
