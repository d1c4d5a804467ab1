"""Result storage that is full, read-only or gone: nothing is paid for that cannot be kept, and nothing twice."""

import errno
import json
import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest
from prefect.filesystems import RemoteFileSystem, WritableFileSystem
from prefect.settings import (
    PREFECT_RESULTS_DEFAULT_STORAGE_BLOCK,
    PREFECT_RESULTS_LOCAL_STORAGE_PATH,
    temporary_settings,
)

from conductor_plugin.cli import main
from conductor_plugin.plan import Plan, render_plan
from tests.openai_wire import text_of
from tests.upstream import Status, Text

pytestmark = pytest.mark.prefect
CONDUCTOR = Path(sys.executable).parent / "conductor"
READ_ONLY = Path("/proc")  # takes no files, not even root's
THREE = Plan(model_id=(0, 0, 0), subtasks=("first", "second", "third"), access_list=((), (0,), "all"))


@pytest.fixture
def storage(tmp_path):
    """A directory of its own for results, which a test may spoil."""
    path = tmp_path / "storage"
    with temporary_settings({PREFECT_RESULTS_LOCAL_STORAGE_PATH: path}):
        yield path


@pytest.fixture
def arguments(upstream, tmp_path):
    """Those of `conductor answer`, for a plan of three steps."""
    worker = {"name": "amber", "kind": "llm", "model": "openai/m", "api_base": upstream.base_url, "retries": 2}
    (tmp_path / "pool.yaml").write_text(json.dumps({"workers": [worker]}))
    (tmp_path / "plan.txt").write_text(render_plan(THREE))
    return ["answer", "--pool", str(tmp_path / "pool.yaml"), "--plan", str(tmp_path / "plan.txt"), "--json"]


@pytest.fixture
def conductor(arguments, capsys, prefect_sqlite):
    """Run `conductor answer` in this process: its exit code, the object on stdout, and stderr."""

    def conductor(*more):
        with pytest.raises(SystemExit) as exit_:
            main([*arguments, *map(str, more)])
        out, err = capsys.readouterr()
        return exit_.value.code, json.loads(out), err

    return conductor


def spoil(directory):
    """From now on no file can be written there: a file stands in its place, which stops root too."""
    directory.rename(directory.with_name("moved"))
    directory.write_text("in the way")


def once(upstream, words, act):
    """Do something while the first call with these words in it is in flight."""
    done = []
    upstream.script(Text("never"), when=lambda body: words in text_of(body) and not done and done.append(act()))


def bad_places(tmp_path):
    (tmp_path / "file").write_text("in the way")
    places = [tmp_path / "file", tmp_path / "file" / "below"]
    if READ_ONLY.is_dir():
        places.append(READ_ONLY)
    if os.geteuid():
        (tmp_path / "read-only").mkdir(mode=0o500)
        places.append(tmp_path / "read-only")
    return places


def test_storage_that_takes_no_write_is_found_before_anything_is_paid_for(conductor, upstream, tmp_path):
    for place in bad_places(tmp_path):
        with temporary_settings({PREFECT_RESULTS_LOCAL_STORAGE_PATH: place}):
            code, record, err = conductor("q")
        assert (code, record["error"]["code"], upstream.requests) == (2, "storage_unusable", [])
        assert f"could not be kept in {place}: " in record["error"]["message"]
        assert len(err.strip().splitlines()) <= 2  # "starting Prefect", and the sentence


@contextmanager
def full_disk():
    """No file of this process may grow beyond 64 KiB: the system refuses the write, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_found_before_anything_is_paid_for(conductor, upstream, storage):
    with full_disk():
        code, record, _ = conductor("q")
    assert (code, record["error"]["code"], upstream.requests) == (2, "storage_unusable", [])
    assert conductor("q")[0] == 0


def test_a_batch_asks_too(conductor, upstream, tmp_path):
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"question": "a"}\n')
    with temporary_settings({PREFECT_RESULTS_LOCAL_STORAGE_PATH: bad_places(tmp_path)[0]}):
        code, record, _ = conductor("--batch", questions)
    assert (code, record["error"]["code"], upstream.requests) == (2, "storage_unusable", [])


@pytest.mark.parametrize("fault", [None, Status(500)], ids=["", "with a retry"])
def test_storage_that_fails_midway_costs_nothing_and_is_told(conductor, upstream, storage, fault):
    """The run goes on with the result in hand; each step is paid for once, and what was not kept is named."""
    once(upstream, "second", lambda: spoil(storage))
    if fault:
        upstream.script(fault, when=lambda body: text_of(body).endswith("second"))
    upstream.script(Text("fine"), repeat=True)
    code, record, err = conductor("q")
    assert (code, record["answer"]) == (0, "fine")
    paid = [text_of(r.body).rpartition("\n")[2] for r in upstream.requests if r.reply == Text("fine")]
    assert paid == ["first", "second", "third"]
    assert len(upstream.requests) == (4 if fault else 3)
    assert "step-0" not in err.replace("step 0", "")
    for step in ("step-1 · amber", "step-2 · amber"):
        assert f"the result of {step} could not be kept in {storage}: a file of that name stands there" in err
    assert "conductor show" in err
    with pytest.raises(SystemExit) as exit_:
        main(["show", record["flow_run_id"]])
    assert exit_.value.code == 1


def test_a_batch_whose_storage_fails_midway_keeps_its_answers(conductor, upstream, storage, tmp_path):
    questions, results = tmp_path / "q.jsonl", tmp_path / "answers.jsonl"
    questions.write_text("".join(f'{{"question": "question {i}"}}\n' for i in range(4)))
    once(upstream, "question 2", lambda: spoil(storage))
    code, record, err = conductor("--batch", questions, "--results", results, "--concurrency", 2)
    assert (code, record["batch"]["completed"], len(upstream.requests)) == (0, 4, 12)
    assert [json.loads(line)["status"] for line in results.read_text().splitlines()] == ["completed"] * 4
    assert "3 · step-" in err
    assert f"could not be kept in {storage}" in err


def test_a_results_file_that_takes_no_answers_is_found_before_any_is_paid_for(conductor, upstream, tmp_path):
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"question": "a"}\n')
    (tmp_path / "binary").write_bytes(b"\xff\xfe\n")
    for place in [tmp_path, tmp_path / "nowhere" / "answers.jsonl", tmp_path / "binary", READ_ONLY / "answers.jsonl"]:
        code, record, _ = conductor("--batch", questions, "--results", place)
        assert (code, record["error"]["code"], upstream.requests) == (2, "results_unusable", [])
        assert f"cannot keep answers in {place}: " in record["error"]["message"]
    assert (tmp_path / "binary").read_bytes() == b"\xff\xfe\n"


def test_a_results_file_that_fails_midway_ends_the_batch_at_once(conductor, upstream, tmp_path):
    questions, results = tmp_path / "q.jsonl", tmp_path / "answers" / "answers.jsonl"
    results.parent.mkdir()
    questions.write_text("".join(f'{{"question": "question {i}"}}\n' for i in range(9)))
    once(upstream, "question 3", lambda: spoil(results.parent))
    code, record, _ = conductor("--batch", questions, "--results", results, "--concurrency", 1)
    assert (code, record["error"]["code"], len(upstream.requests)) == (2, "results_unusable", 12)
    assert str(results) in record["error"]["message"]
    moved = results.parent.with_name("moved") / "answers.jsonl"
    assert len(moved.read_text().splitlines()) == 3


class FullStorage(WritableFileSystem):
    """Storage of somebody else's making, which takes nothing."""

    async def read_path(self, path):
        raise ValueError("there is nothing")

    async def write_path(self, path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_storage_that_is_a_block_is_asked_alike(conductor, upstream):
    RemoteFileSystem(basepath="memory://results").save("good")
    FullStorage().save("bad")
    with temporary_settings({PREFECT_RESULTS_DEFAULT_STORAGE_BLOCK: "fullstorage/bad"}):
        code, record, _ = conductor("q")
    assert (code, record["error"]["code"], upstream.requests) == (2, "storage_unusable", [])
    assert "the block bad: No space left on device; " in record["error"]["message"]
    with temporary_settings({PREFECT_RESULTS_DEFAULT_STORAGE_BLOCK: "remote-file-system/good"}):
        assert conductor("q")[0] == 0
    assert fsspec.filesystem("memory").exists("/results/conductor-write-check")


def test_an_unusable_prefect_home_is_one_sentence(arguments, tmp_path):
    """Asked before the temporary server is started, which would fail after a minute and a half."""
    for place in bad_places(tmp_path):
        done = subprocess.run(
            [CONDUCTOR, *arguments, "q"],
            env={**os.environ, "PREFECT_HOME": str(place)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        error = json.loads(done.stdout)["error"]
        assert (done.returncode, error["code"]) == (2, "prefect_home_unusable")
        assert f"in {place}: " in error["message"]
        assert "PREFECT_HOME" in error["message"]
        assert done.stderr.splitlines() == ["starting Prefect", f"conductor: {error['message']}"]
