"""The database's URL for libpq, SQLAlchemy and Dagster."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.host.database import DatabaseUrls, dagster_url, database_urls
from qtg_dagster.host.postgres import EmbeddedPostgres
from qtg_dagster.settings import Settings
from qtg_dagster.store.roles import APP
from qtg_dagster.store.urls import plain_url, sqlalchemy_url

SOCKET = "postgresql://qtg@/qtg?host=%2Fa%20b%2Frun&port=5432"


@pytest.mark.parametrize("given", ["postgres://u:p%40@h:1/d", "postgresql+psycopg2://u:p%40@h:1/d"])
def test_any_spelling_of_postgres_is_taken(given: str) -> None:
    assert plain_url(given) == "postgresql://u:p%40@h:1/d"
    assert sqlalchemy_url(given) == "postgresql+psycopg://u:p%40@h:1/d"


def test_other_databases_are_refused_without_showing_the_password() -> None:
    with pytest.raises(ConfigurationError, match="DATABASE_URL") as refusal:
        plain_url("mysql://u:hush@h/d")
    assert "hush" not in str(refusal.value)


def test_dagster_gets_psycopg2_and_its_own_schema() -> None:
    assert (
        dagster_url(SOCKET) == SOCKET.replace("postgresql", "postgresql+psycopg2") + "&options=-csearch_path%3Ddagster"
    )


def test_options_that_are_there_stay() -> None:
    assert dagster_url("postgresql://h/d?options=-cjit%3Doff").endswith("options=-cjit%3Doff%20-csearch_path%3Ddagster")


def test_both_drivers_reach_the_embedded_server(empty_database_url: str) -> None:
    for url in (sqlalchemy_url(empty_database_url), dagster_url(empty_database_url)):
        with create_engine(url).connect() as connection:
            assert connection.execute(text("SELECT current_user")).scalar() == "qtg"


def test_no_database_names_both_ways_out(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("QTG_HOME", str(home))
    with pytest.raises(ConfigurationError, match=r"DATABASE_URL.*qtg up"):
        database_urls(Settings(database_url=""))


@pytest.fixture(autouse=True)
def _no_url_for_dagster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QTG_DAGSTER_DATABASE_URL", raising=False)


def test_database_url_goes_before_the_embedded_server() -> None:
    given = "postgresql://u@h/d"
    assert database_urls(Settings(database_url="postgres://u@h/d")) == DatabaseUrls(*[given] * 6)


@pytest.mark.parametrize("part", ["signer", "sender", "retention"])
def test_each_part_may_be_given_a_role_of_its_own(part: str) -> None:
    settings = {"database_url": "postgres://u@h/d", f"{part}_database_url": "postgres://s@h/d"}
    urls = database_urls(Settings(**settings))
    assert (urls.app, getattr(urls, part)) == ("postgresql://u@h/d", "postgresql://s@h/d")


def test_on_the_embedded_server_each_connects_as_a_role_of_its_own(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("QTG_HOME", str(home))
    server = EmbeddedPostgres(home)
    for name in (server.url, server.url_of(APP)):  # also after `eval "$(qtg env)"`
        urls = database_urls(Settings(database_url=name))
        users = [make_url(getattr(urls, field.name)).username for field in fields(urls)]
        assert users == ["qtg", "qtg_app", "qtg_signer", "qtg_sender", "qtg_retention", "qtg_dagster"]


def test_dagster_may_be_given_a_role_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/database-roles.md says; what `qtg up` hands on must be that, and not be made from the app's URL."""
    monkeypatch.setenv("QTG_DAGSTER_DATABASE_URL", "postgresql+psycopg2://dag@h/d?options=-csearch_path%3Ddagster")
    urls = database_urls(Settings(database_url="postgres://u@h/d"))
    assert (urls.app, make_url(urls.dagster).username) == ("postgresql://u@h/d", "dag")
    assert dagster_url(urls.dagster) == "postgresql+psycopg2://dag@h/d?options=-csearch_path%3Ddagster"
