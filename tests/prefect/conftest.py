"""Prefect's server on either database, for tests of what it keeps."""

import pytest


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def server(request, monkeypatch):
    server = request.getfixturevalue(f"prefect_{request.param}")
    if request.param == "sqlite":
        yield server
        return
    with server.use():
        object.__setattr__(server, "postgres_url", request.getfixturevalue("postgres_url"))
        yield server
