"""Taking secrets out of anything that is about to be written down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

REDACTED = "[redacted]"
MAX_TEXT = 4_000
#: Every pattern below needs a space, a colon, an equals sign or a slash: text of these characters alone has no secret
#: that could be told from an identifier.
_BARE_WORD = re.compile(r"[A-Za-z0-9._+\-]{0,200}")

_TELLING_WORDS = (
    r"secret|passw|passphrase|private[_-]?key|privkey|api[_-]?key|signature|authorization|cookie|mnemonic|"
    r"seed[_-]?phrase|credential|access[_-]?token|refresh[_-]?token|auth[_-]?token|bearer|jwt|session[_-]?id|"
    r"questionnaire|beneficiary|rcvr"
)
_SECRET_KEY = re.compile(_TELLING_WORDS, re.IGNORECASE)
_SECRET_IN_TEXT = (
    re.compile(r"()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    # An authorization header's value has two words.
    re.compile(r"(?i)(\b(?:basic|bearer|token)\s+)[A-Za-z0-9._~+/\-]{8,}=*"),
    # name=value, name: value, "name": "value", whatever the name has around its secret word.
    re.compile(
        rf"(?i)((?:\b|_)[\w.\-]*(?:{_TELLING_WORDS}|\btoken|\bpwd)[\w.\-]*\\?[\"']?\s*[:=]\s*)"
        r"(?:\\?\"[^\"]*\"?|'[^']*'?|[^\s,;&\"'}\)\]]+)"
    ),
    re.compile(r"(?i)(\b[a-z][a-z0-9+.\-]*://[^:/?#\s@]*:)[^@/\s]+(?=@)"),
    # RPC providers carry their key in the path.
    re.compile(r"(?i)(/v[0-9]+/)[A-Za-z0-9_\-]{24,}"),
)


def redact(value: Any) -> Any:
    """A copy of a JSON-like value without secrets: by key name, and inside text such as signed URLs."""
    if isinstance(value, Mapping):
        judged = [(_judge_key(str(key)), item) for key, item in value.items()]
        return {key: REDACTED if telling else redact(item) for (key, telling), item in judged}
    if isinstance(value, (list, tuple)):
        return [redact(item) for item in value]
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, (bool, int)) or value is None:
        return value
    return redact_text(str(value))


@lru_cache(maxsize=2048)
def _judge_key(key: str) -> tuple[str, bool]:
    """A key as it can be stored, and whether it says that its value is a secret; keys come again and again."""
    return _storable(key), _SECRET_KEY.search(key) is not None


def redact_text(text: str) -> str:
    """Text without secrets, cut to a bounded length, and such as the database's JSON can hold."""
    if _BARE_WORD.fullmatch(text):
        return text
    text = _storable(text)
    for pattern in _SECRET_IN_TEXT:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + f"... [{len(text) - MAX_TEXT} more]"


def _storable(text: str) -> str:
    """What a provider sent may hold NULs and broken characters; the database's JSON may not."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
