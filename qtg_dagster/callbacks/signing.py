"""The headers of a callback: both signatures, the v3 one the same at every attempt, the other made anew."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.callbacks.verify import key_of, standard_signature, v3_signature
from qtg_dagster.domain.callbacks import ClaimedCallback
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.inventory import CallbackSecrets, Inventory

_USER_AGENT = "qtg-callbacks/1"


class SigningKeys:
    """The keys of every receiver: its own where the inventory has some, else those of all."""

    def __init__(self, inventory: Inventory) -> None:
        """Read the secrets; raises `ConfigurationError` when there is none, or one that cannot be used."""
        entry = inventory.callbacks
        if entry is None:
            raise ConfigurationError(
                "callbacks wait: the inventory has no `callbacks` section with a secret to sign them with"
            )
        self._common = _Keys.read("callbacks", entry)
        self._own = {
            authority.lower(): _Keys.read(f"callbacks.receivers.{authority}", secrets)
            for authority, secrets in entry.receivers.items()
        }

    def headers(self, callback: ClaimedCallback, now: int) -> list[tuple[str, str]]:
        """All headers of one attempt at `now`, seconds since 1970."""
        keys = self._own.get(callback.receiver, self._common)
        return [
            ("Content-Type", "application/json"),
            ("User-Agent", _USER_AGENT),
            # While a secret is being replaced, both sign: a receiver with either verifies.
            ("webhook-id", callback.event_id),
            ("webhook-timestamp", str(now)),
            (
                "webhook-signature",
                " ".join(f"v1,{standard_signature(key, callback.event_id, now, callback.body)}" for key in keys.all),
            ),
            ("X-QTG-Callback-Timestamp", str(callback.timestamp)),
            ("X-QTG-Callback-Nonce", callback.nonce),
            ("X-QTG-Callback-Signature-Version", "v3"),
            (
                "X-QTG-Callback-Signature",
                v3_signature(keys.current, callback.timestamp, callback.nonce, callback.body),
            ),
        ]


@dataclass(frozen=True, slots=True)
class _Keys:
    current: bytes
    previous: bytes | None

    @property
    def all(self) -> tuple[bytes, ...]:
        return (self.current,) if self.previous is None else (self.current, self.previous)

    @classmethod
    def read(cls, where: str, secrets: CallbackSecrets) -> _Keys:
        previous = secrets.previous_secret
        try:
            return cls(
                key_of(secrets.secret.read(f"{where}.secret").expose()),
                None if previous is None else key_of(previous.read(f"{where}.previous_secret").expose()),
            )
        except ValueError as error:
            raise ConfigurationError(f"{where}: {error}") from None
