"""Taking secrets out of anything that is about to be written down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

REDACTED = "[redacted]"
MAX_TEXT = 4_000

_SECRET_KEY = re.compile(
    r"(secret|passw|passphrase|private[_-]?key|api[_-]?key|apikey|signature|authorization|cookie|mnemonic|"
    r"access[_-]?token|refresh[_-]?token|questionnaire|beneficiary|x-mbx-apikey)",
    re.IGNORECASE,
)
_SECRET_IN_TEXT = (
    re.compile(r"(?i)\b((?:signature|apikey|api_key|secret|token|password|passphrase)=)[^&\s\"']+"),
    re.compile(r"(?i)\b(postgres(?:ql)?(?:\+\w+)?://[^:/\s]+:)[^@\s]+(?=@)"),
    re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._\-]+"),
)


def redact(value: Any) -> Any:
    """A copy of a JSON-like value without secrets: by key name, and inside text such as signed URLs."""
    if isinstance(value, Mapping):
        return {str(key): REDACTED if _SECRET_KEY.search(str(key)) else redact(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact(item) for item in value]
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, (bool, int)) or value is None:
        return value
    return redact_text(str(value))


def redact_text(text: str) -> str:
    """Text without secrets, cut to a bounded length."""
    for pattern in _SECRET_IN_TEXT:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + f"... [{len(text) - MAX_TEXT} more]"
