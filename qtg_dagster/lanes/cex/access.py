"""Why a venue does not let us in: in its own words, and with what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qtg_dagster.domain.errors import InvalidInput
from qtg_dagster.domain.redaction import redact_text
from qtg_dagster.lanes.cex.reply import LookupFailed, RawReply
from qtg_dagster.lanes.cex.venue import Access, Venue

_LONGEST_WORDS = 300


@dataclass(frozen=True, slots=True)
class Remedy:
    """What a refusal means and what helps. `field` of the venue's entry is None where it passes by itself."""

    field: str | None
    means: str
    fix: str
    code: str = "PREFLIGHT_REFUSED"


REMEDIES: Mapping[Access, Remedy] = {
    Access.WRONG_KEY: Remedy(
        "api_key",
        "it does not know the API key",
        "Give the whole key of this account as the venue shows it; make a new one if it was deleted or has expired.",
    ),
    Access.WRONG_SIGNATURE: Remedy(
        "api_secret",
        "it does not accept the signature",
        "Give the secret that belongs to this API key, whole and as the venue showed it.",
    ),
    Access.WRONG_PASSPHRASE: Remedy(
        "api_passphrase",
        "it does not accept the passphrase",
        "Give the passphrase that was chosen when this API key was made.",
    ),
    Access.IP_NOT_ALLOWED: Remedy(
        "api_key",
        "it does not take this API key from this machine's address",
        "Add the address under which this machine reaches the venue to the key's allowed addresses there.",
    ),
    Access.ACCOUNT_KIND: Remedy(
        "wire",
        "it does not serve accounts of this kind over this wire",
        "Use an account, or a sub-account, of the kind that docs/venues.md names for this wire.",
    ),
    Access.NO_PERMISSION: Remedy(
        "api_key",
        "the API key lacks a permission",
        "Let the key read the account and withdraw, at the venue.",
    ),
    Access.KEY_IP_OR_PERMISSION: Remedy(
        "api_key",
        "its one answer to a wrong key, to an address that is not allowed and to a missing permission",
        "Compare, at the venue, the key itself, its allowed addresses and its permissions.",
    ),
    Access.CLOCK: Remedy(
        None,
        "it finds the time of the request wrong",
        "Synchronise this machine's clock.",
        "CLOCK_SKEW",
    ),
    Access.NONCE: Remedy(
        None,
        "it has seen a higher nonce of this API key",
        "Use the key for nothing but this, and give it a short nonce window if several processes do.",
        "NONCE_REFUSED",
    ),
    Access.LOCKED_OUT: Remedy(
        None,
        "it keeps us out for a while, as it does after requests that it had to refuse",
        "See that the key is right; it is not asked again for some minutes, as insisting makes it longer.",
        "LOCKED_OUT",
    ),
    Access.MAINTENANCE: Remedy(
        None,
        "it is not at work",
        "Wait until it is; its status page says more.",
        "VENUE_DOWN",
    ),
}


class AccessRefused(LookupFailed):
    """The venue does not let us in. Like every failed look-up it says nothing about what was asked."""

    def __init__(
        self, account_key: str, kind: Access, venue_code: str, words: str, *, retry_after_seconds: float | None = None
    ) -> None:
        self.account_key = account_key
        self.kind = kind
        self.venue_code = venue_code
        self.words = redact_text(words)[:_LONGEST_WORDS]
        self.remedy = REMEDIES[kind]
        said = venue_code if self.words in ("", venue_code) else f"{self.words} ({venue_code})"
        self.problem = f"{account_key} says: {said}: {self.remedy.means}"
        super().__init__(kind.value, f"{self.problem}. {self.remedy.fix}", retry_after_seconds=retry_after_seconds)

    @property
    def invalid(self) -> InvalidInput | None:
        """The field of the inventory that has to change; None for what passes by itself."""
        if self.remedy.field is None:
            return None
        return InvalidInput(f"venues.{self.account_key}.{self.remedy.field}", self.problem, self.remedy.fix)


def with_fix(account_key: str, venue: Venue, code: str | None, words: str) -> str:
    """The words of an answer to a withdrawal request; with the fix where its code says that we are not let in."""
    kind = None if code is None else venue.access_codes.get(code)
    if kind is None or code is None:
        return words
    refusal = AccessRefused(account_key, kind, code, words)
    return f"{refusal.problem}. {refusal.remedy.fix}"


def access_refusal(account_key: str, venue: Venue, reply: RawReply) -> AccessRefused | None:
    """What a readable answer, under whatever HTTP status, says of our access; None when it says nothing of it."""
    if reply.json is None:
        return None
    error = venue.read_error(reply.json)
    kind = None if error.error_code is None else venue.access_codes.get(error.error_code)
    if kind is None or error.error_code is None:
        return None
    return AccessRefused(
        account_key, kind, error.error_code, error.message, retry_after_seconds=reply.retry_after_seconds
    )
