"""A real vLLM: its plans parse, it works as an open worker, and it may be killed and interrupted.

    CONDUCTOR_TEST_VLLM=/path/to/its/environment/bin/vllm python -m pytest -s tests/vllm

Each start takes a minute or more, of which there are two. The prints are the figures of docs/vllm.md.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from conductor_plugin.on_prefect.flow import conductor
from conductor_plugin.on_prefect.history import whole_history
from conductor_plugin.plan import Plan, PlanRules, render_plan
from conductor_plugin.planners import make_planner
from conductor_plugin.planners.base import PlanRequest
from conductor_plugin.pool import pool_from
from conductor_plugin.receipt import Answer
from conductor_plugin.served import check_served
from tests.vllm.server import Server

pytestmark = [pytest.mark.vllm, pytest.mark.local, pytest.mark.prefect, pytest.mark.timeout(1800)]
QUESTIONS = ["What is 17 * 23?", "Is 91 prime?", "Spell 'graph' backward.", "x"]
# Two steps that are answered at once, one that is in flight as the server is killed, one that sees them all.
PLAN = Plan(model_id=(0, 0, 1, 0), subtasks=("first", "second", "third", "fourth"), access_list=((), (), (0,), "all"))
LONG = 400  # tokens of the third step, which leave the time to kill the server


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """SmolLM2's weights, and an adapter of random ones that names them as its base."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from conductor_plugin.workers.local import weights

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONDUCTOR_HOME", str(tmp_path_factory.mktemp("home")))
        base = weights()
    torch.manual_seed(0)
    settings = LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    folder = tmp_path_factory.mktemp("adapter")
    get_peft_model(AutoModelForCausalLM.from_pretrained(base), settings).save_pretrained(folder)
    yield folder
    for large in base.rglob("*.safetensors"):
        large.unlink()  # pytest keeps its directories


@pytest.fixture(scope="module")
def started(adapter: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(adapter, tmp_path_factory.mktemp("server"))
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def server(started: Server) -> Server:
    """The server, up."""
    started.start()
    return started


def content(server: Server) -> dict[str, Any]:
    """A pool with the printed lines, whose workers are the model behind the adapter, told to be short or long."""

    def worker(name: str, **params: Any) -> dict[str, Any]:
        return {
            **{"name": name, "kind": "llm", "model": "openai/conductor-base", "api_base": server.base_url},
            **{"timeout_seconds": 600, "retries": 20, "price": {"input": 1, "output": 1}},
            "params": {"temperature": 0, **params},
        }

    workers = [worker("short", max_tokens=8), worker("long", max_tokens=LONG, extra_body={"ignore_eos": True})]
    pasted = yaml.safe_load(server.printed().split("In the pool file:")[1])["planner"]
    return {"workers": workers, "planner": {**pasted, "timeout_seconds": 600}}  # on a busy core


async def answered(pool: dict[str, Any], question: str, **options: Any) -> Answer:
    async with whole_history():
        state = await conductor(question, pool=pool, return_state=True, **options)
    return await state.result(raise_on_failure=False)


async def test_every_plan_parses_and_the_model_behind_it_works(server: Server, prefect_sqlite: str) -> None:
    pool = content(server)
    members = pool_from(pool)
    assert [(one.who, one.state) for one in await check_served(members)] == [
        *(("short", "served"), ("long", "served"), ("the planner", "served"))
    ]
    planner, rules = make_planner(members), PlanRules(workers=2, max_steps=3)
    requests = [PlanRequest(question=question, pool=members, rules=rules) for question in QUESTIONS]
    proposals = await asyncio.gather(*map(planner.propose, requests))
    assert [proposal.fault for proposal in proposals] == [None] * len(QUESTIONS)
    answer = await answered(pool, QUESTIONS[0], only=["short"], max_steps=2)
    assert (answer.status, answer.error, answer.planner.attempts) == ("completed", None, 1)
    assert {step.status for step in answer.rounds[0].steps} == {"completed"}


async def test_a_kill_amid_a_plan(server: Server, prefect_sqlite: str) -> None:
    pool, before = content(server), server.figure("request_success_total")

    def kill_and_start_again() -> float:
        while server.figure("request_success_total") < before + 2 or not server.figure("num_requests_running"):
            time.sleep(0.1)
        assert server.kill() == 137
        assert server.left() == []  # an engine that lived on would keep the memory that the next one needs
        return server.start()

    answer, down = await asyncio.gather(
        answered(pool, "q", plan=render_plan(PLAN)), asyncio.to_thread(kill_and_start_again)
    )
    steps = answer.rounds[0].steps
    print(f"\nkilled; healthy again after {down:.0f} s; attempts {[step.attempts for step in steps]}")
    assert (answer.status, answer.error) == ("completed", None)
    # By its own count the new server answered the call that was in flight and the one after it, and no other.
    assert server.figure("request_success_total") == 2
    assert [step.attempts > 1 for step in steps] == [False, False, True, False]
    assert steps[2].completion_tokens is None  # of the call that was cut off nobody knows what it took
    assert [step.cost_usd is None for step in steps] == [False, False, True, False]
    assert answer.answer == steps[3].output != ""


def test_ctrl_c_leaves_nothing_behind(server: Server) -> None:
    assert server.interrupt() == 130
    assert server.left() == []
