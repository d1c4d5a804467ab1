"""What a person sees when the world is not as it should be: one sentence, a stable code, nothing paid for twice."""

import asyncio
import json
import os
import socket
from contextlib import contextmanager

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

from conductor_plugin.cli import main
from conductor_plugin.on_prefect.artifact import ARTIFACT_KEY
from conductor_plugin.plan import Plan, render_plan
from conductor_plugin.pool import shipped_pools
from tests.upstream import Status, Text

ONE = Plan(model_id=(0,), subtasks=("",), access_list=((),))
TWO = Plan(model_id=(0, 0), subtasks=("first", "second"), access_list=((), (0,)))

SHIPPED = ", ".join(shipped_pools())


@pytest.fixture
def conductor(capsys):
    """Run the command line in this process: its exit code, the object on stdout, and stderr."""

    def conductor(*arguments):
        with pytest.raises(SystemExit) as exit_:
            main([*map(str, arguments), "--json"])
        out, err = capsys.readouterr()
        return exit_.value.code, json.loads(out), err

    return conductor


@pytest.fixture
def answer(conductor, upstream, tmp_path, prefect_sqlite):
    """Run `conductor answer q` with a plan over one worker, whose fields may be given."""

    def answer(plan=ONE, **fields):
        worker = {"name": "amber", "kind": "llm", "model": "openai/m", "api_base": upstream.base_url, **fields}
        (tmp_path / "pool.yaml").write_text(json.dumps({"workers": [worker]}))
        (tmp_path / "plan.txt").write_text(render_plan(plan))
        return conductor("answer", "q", "--pool", tmp_path / "pool.yaml", "--plan", tmp_path / "plan.txt")

    return answer


@contextmanager
def an_ordinary_user():
    """Root may read everything: it becomes nobody for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize("command", [["pool"], ["plan", "q"], ["answer", "q"]], ids=" ".join)
def test_a_pool_that_cannot_be_read(conductor, tmp_path, command):
    secret = tmp_path / "secret.yaml"
    secret.write_text("workers: []")
    secret.chmod(0)
    for place, reason in (
        (tmp_path, "Is a directory"),
        (tmp_path / "nowhere.yaml", "No such file or directory; the pools that come with the package are " + SHIPPED),
        (secret, "Permission denied"),
    ):
        conductor(*command, "--pool", tmp_path)  # all imports, which nobody may not do
        with an_ordinary_user() if place == secret else contextmanager(lambda: iter([None]))():
            code, record, err = conductor(*command, "--pool", place)
        assert (code, record["error"]["code"]) == (2, "pool_unreadable")
        assert record["error"]["message"] == f"cannot read the pool file {place}: {reason}"
        assert err == f"conductor: {record['error']['message']}\n"


def test_a_planner_in_a_folder_that_cannot_be_read(conductor, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    (secret / "model.json").write_text("{}")
    (secret / "manifest.json").write_text("{}")
    for planner in (f"routerdc:{secret}", f"conductor:{secret}"):
        conductor("plan", "q", "--planner", planner)  # all imports, which nobody may not do
        with an_ordinary_user():
            code, record, _ = conductor("plan", "q", "--planner", planner)
        assert (code, record["error"]["code"]) == (2, "planner_unreadable")
        assert "Permission denied" in record["error"]["message"]


def _closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# What is wrong; the code, the calls that the upstream gets, and what the sentence must say.
WRONG = {
    "refused": ({"api_base": f"http://127.0.0.1:{_closed_port()}/v1"}, None, "connection", 0, "Connect"),
    "no such host": ({"api_base": "http://no-such-host.invalid/v1"}, None, "connection", 0, "Connect"),
    "no such model": ({}, Status(404, "The model `m` does not exist"), "no_such_model", 1, "does not exist there"),
    "too long": (
        {},
        Status(400, "the context of 8192 tokens is exceeded", "context_length_exceeded"),
        "context_too_long",
        1,
        "8192 tokens",
    ),
}


@pytest.mark.prefect
@pytest.mark.parametrize(("fields", "fault", "code", "calls", "says"), WRONG.values(), ids=WRONG)
def test_an_upstream_that_is_of_no_use(answer, upstream, fields, fault, code, calls, says):
    if fault:
        upstream.script(fault, repeat=True)
    exit_code, record, err = answer(retries=1, **fields)
    assert (exit_code, record["error"]["code"], len(upstream.requests)) == (1, code, calls)
    message = record["error"]["message"]
    assert message.startswith("openai/m")
    assert says in message
    assert "\n" not in message
    assert "Traceback" not in err
    assert record["rounds"][0]["steps"][0]["attempts"] == (1 if calls else 2)


@pytest.mark.prefect
@pytest.mark.parametrize("nothing", [Text(""), Text(None), Text(" \n ")], ids=repr)
def test_an_empty_answer_in_the_middle_is_shown_as_none(answer, upstream, nothing):
    upstream.script(nothing, Text("the end"))
    code, record, _ = answer(TWO)
    assert (code, record["answer"], len(upstream.requests)) == (0, "the end", 2)
    assert [(m["role"], m["content"]) for m in upstream.requests[1].body["messages"]] == [
        ("user", "q\n\nfirst"),
        ("assistant", "(no answer)"),
        ("user", "second"),
    ]


@pytest.mark.prefect
def test_an_empty_answer_at_the_end_is_a_failure(answer, upstream):
    upstream.script(Text("something"), Text(""), repeat=True)
    code, record, _ = answer(TWO)
    assert (code, record["status"], record["error"]["code"]) == (1, "failed", "empty_answer")
    assert len(upstream.requests) == 2
    assert "the last step gave an empty answer" in record["error"]["message"]


@pytest.mark.prefect
def test_an_answer_of_five_megabytes_is_printed_shown_and_cut_in_the_artifact(answer, conductor, upstream):
    large = "0123456789abcde " * (5 * 2**20 // 16)
    upstream.script(Text(large))
    code, record, _ = answer()
    assert (code, record["answer"] == large) == (0, True)
    (artifact,) = (a for a in asyncio.run(_artifacts(record["flow_run_id"])) if a.key == ARTIFACT_KEY)
    assert large[:1000] in artifact.data
    assert "characters more in the run's result" in artifact.data
    assert len(artifact.data) < 100_000
    code, again, _ = conductor("show", record["flow_run_id"])
    assert (code, again["answer"] == large, again == record) == (0, True, True)


async def _artifacts(flow_run_id):
    async with get_client() as client:
        return await client.read_artifacts(
            artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run_id]))
        )
