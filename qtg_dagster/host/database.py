"""Which database this machine's QTG uses, and its URL in the dialects that its parts speak."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.paths import state_home
from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.settings import Settings

DAGSTER_SCHEMA = "dagster"


def database_url(settings: Settings) -> str:
    """`DATABASE_URL`, else the running embedded server; raises `ConfigurationError` when there is neither."""
    if settings.database_url:
        return plain_url(settings.database_url)
    server = EmbeddedPostgres(state_home())
    if not server.is_alive():
        raise ConfigurationError(
            f"no database: DATABASE_URL is not set and the embedded PostgreSQL of {server.home} does not run. "
            "Start it with `qtg up`, or set DATABASE_URL=postgresql://user:password@host/database"
        )
    return server.url


def plain_url(url: str) -> str:
    """The URL as libpq takes it: `postgresql://`, without a driver's name."""
    return _with_scheme(url, "postgresql")


def dagster_url(url: str) -> str:
    """The URL for Dagster's own storage: psycopg2, which it is written for, and a schema of its own."""
    parts = urlsplit(_with_scheme(url, "postgresql+psycopg2"))
    query = parse_qsl(parts.query, keep_blank_values=True)
    options = [text for name, text in query if name == "options"]
    others = [(name, text) for name, text in query if name != "options"]
    searching = " ".join([*options, f"-csearch_path={DAGSTER_SCHEMA}"])
    return urlunsplit(parts._replace(query=urlencode([*others, ("options", searching)], quote_via=quote)))


def _with_scheme(url: str, scheme: str) -> str:
    given, separator, rest = url.partition("://")
    if not separator or given.partition("+")[0] not in ("postgres", "postgresql"):
        raise ConfigurationError(
            f"DATABASE_URL: the scheme {given.partition('+')[0] or given!r} is not PostgreSQL's. "
            "Give postgresql://user:password@host/database"
        ) from None
    return f"{scheme}://{rest}"
