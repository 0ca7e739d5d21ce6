"""The database's URL in the dialects of those who connect to it."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from qtg_dagster.domain.errors import ConfigurationError


def plain_url(url: str) -> str:
    """The URL as libpq takes it: `postgresql://`, without a driver's name; raises `ConfigurationError`."""
    return with_scheme(url, "postgresql")


def sqlalchemy_url(url: str) -> str:
    """The same server for SQLAlchemy through psycopg 3."""
    return with_scheme(url, "postgresql+psycopg")


def with_scheme(url: str, scheme: str) -> str:
    """The same URL under another scheme; raises `ConfigurationError` when it is no PostgreSQL's."""
    given, separator, rest = url.partition("://")
    if not separator or given.partition("+")[0] not in ("postgres", "postgresql"):
        raise ConfigurationError(
            f"DATABASE_URL: the scheme {given.partition('+')[0] or given!r} is not PostgreSQL's. "
            "Give postgresql://user:password@host/database"
        ) from None
    return f"{scheme}://{rest}"


def with_options(url: str, more: str) -> str:
    """The URL with server options, `-cname=value`, after those that it has. To libpq, a `+` is no space."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    options = [text for name, text in query if name == "options"]
    others = [(name, text) for name, text in query if name != "options"]
    given = " ".join([*options, more])
    return urlunsplit(parts._replace(query=urlencode([*others, ("options", given)], quote_via=quote)))
