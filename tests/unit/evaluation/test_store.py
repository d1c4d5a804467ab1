"""The store: what was written stays, whoever writes beside it, and whoever is killed."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from conductor_plugin.errors import InputError
from conductor_plugin.evaluation.store import Store

WRITER = """
import sys
from conductor_plugin.evaluation.store import Store

store, name = Store(sys.argv[1]), sys.argv[2]
for i in range(int(sys.argv[3])):
    kept = store.put("sample", f"key-{i}", {"by": name, "i": i, "text": "ö" * 100}, worker="w", question="q")
    print(kept["by"], flush=True)
"""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=[pytest.mark.prefect, pytest.mark.postgres])])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    return request.getfixturevalue("postgres_url").replace("+asyncpg", "+psycopg")


def writer(url, name, count):
    return subprocess.Popen([sys.executable, "-c", WRITER, url, name, str(count)], stdout=subprocess.PIPE, text=True)


def test_the_first_of_two_writers_wins(url):
    store = Store(url)
    assert store.get("plan", "k") is None
    assert store.put("plan", "k", {"n": 1}) == {"n": 1}
    assert store.put("plan", "k", {"n": 2}) == {"n": 1}
    assert store.get("plan", "k") == {"n": 1}
    assert store.get("result", "k") is None
    store.replace("plan", "k", {"n": 3})
    store.replace("plan", "new", {"n": 4})
    assert store.get_many("plan", ["k", "new"]) == {"k": {"n": 3}, "new": {"n": 4}}


def test_writers_at_once_lose_nothing_and_agree(url):
    writers = [writer(url, name, 200) for name in ("a", "b", "c")]
    told = [process.communicate(timeout=120)[0].split() for process in writers]
    assert all(len(answers) == 200 for answers in told)
    store = Store(url)
    kept = store.get_many("sample", [f"key-{i}" for i in range(200)])
    assert [kept[f"key-{i}"]["by"] for i in range(200)] == told[0] == told[1] == told[2]


def test_what_was_told_survives_a_kill(url):
    for attempt in range(5):
        process = writer(url, f"killed-{attempt}", 100_000)
        said = [process.stdout.readline() for _ in range(5 + 20 * attempt)]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        store = Store(url)
        assert len(store.get_many("sample", [f"key-{i}" for i in range(len(said))])) == len(said)
        store.close()


def test_threads_share_a_store(url):
    store = Store(url)
    with ThreadPoolExecutor(8) as threads:
        kept = list(threads.map(lambda i: store.put("verdict", f"v{i % 50}", {"i": i}), range(400)))
    assert {record["i"] % 50 for record in kept} == set(range(50))


def test_samples_of_a_question_come_by_index(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'store.sqlite'}")
    for sample in (2, 0, 1):
        store.put("sample", f"s{sample}", {"sample": sample}, worker="w", question="q")
    store.put("sample", "other", {"sample": 9}, worker="v", question="q")
    assert [record["sample"] for record in store.samples_of("w", "q")] == [0, 1, 2]


@pytest.mark.parametrize(
    "url", ["nonsense", "sqlite:////nowhere/at/all.sqlite", "postgresql+psycopg://u:geheim@127.0.0.1:9/x", "oracle://x"]
)
def test_a_store_that_cannot_be_used(url):
    with pytest.raises(InputError, match="cannot use the sample store") as caught:
        Store(url)
    assert caught.value.code == "store_unusable"
    assert "geheim" not in str(caught.value)


def test_the_default_lies_in_the_home(tmp_path):
    store = Store()
    store.put("plan", "k", {"n": 1})
    assert str(tmp_path) in store.url
    assert store.get("plan", "k") == {"n": 1}
