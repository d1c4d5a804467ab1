"""What the tests of the pure core share: hypothesis strategies, small pools, and a bound on CPU time."""

import os
import resource
import traceback
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from conductor_plugin.graph import CallStep, ConductorStep, ReduceStep, Step
from conductor_plugin.plan import Access, Plan
from conductor_plugin.pool import Pool, pool_from

# What has a meaning to the parser, or to Python, and may stand in an instruction or in the reasoning all the same.
FRAGMENTS = [
    *("'", '"', "\\", "\n", "\r\n", "\t", "\0", "\x7f", "\u2028", "[", "]", ",", "#", "=", " ", "0", "True"),
    *("'''", '"""', "\\'", '\\"', "\\x6b", "\\u", "```", "```python\n", "`", "{", "}", "(", "$question"),
    *("<think>", "</think>", "<thi", "nk>", "think>", "<|im_end|>", "😀", "é", "\ufeff", "\u202e", "ﬁ"),
    *("model_id = [9]", "models:[", "subtasks = ['x']", "subtask=[", "access_list = [[]]", "access_lists", '["all"]'),
]


def lists(ids: str = "[0]", subtasks: str = '["a"]', access: str = "[[]]") -> str:
    """The three lists as text, of one step unless said otherwise."""
    return f"model_id = {ids}\nsubtasks = {subtasks}\naccess_list = {access}\n"


def tricky_texts(longest: int = 12) -> st.SearchStrategy[str]:
    """Any text without lone surrogates, rich in fragments that a careless parser trips over."""
    return st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=longest).map("".join)


def access(step: int) -> st.SearchStrategy[Access]:
    """What step number `step` may see: "all" or different earlier steps in any order."""
    some = st.lists(st.integers(0, step - 1), unique=True).map(tuple) if step else st.just(())
    return st.just("all") | some  # type: ignore[return-value]


@st.composite
def plans(draw: st.DrawFn, workers: int = 4, steps: tuple[int, int] = (1, 5)) -> Plan:
    """Valid plans over a pool of so many workers."""
    n = draw(st.integers(*steps))
    return Plan(
        model_id=tuple(draw(st.integers(0, workers - 1)) for _ in range(n)),
        subtasks=tuple(draw(tricky_texts()) for _ in range(n)),
        access_list=tuple(draw(access(i)) for i in range(n)),
        reasoning=draw(tricky_texts()),
    )


@st.composite
def step_lists(draw: st.DrawFn, workers: int = 4, longest: int = 8) -> list[Step]:
    """Steps of a graph, calls and reduce steps, sometimes with the Conductor at the end."""
    steps: list[Step] = []
    for i in range(draw(st.integers(0, longest))):
        if draw(st.booleans()) or not i:
            steps.append(CallStep(worker=draw(st.integers(0, workers - 1)), access=draw(access(i))))
        else:
            steps.append(ReduceStep(reduce="majority", access=draw(access(i))))
    if draw(st.booleans()):
        steps.append(ConductorStep(access=draw(access(len(steps)))))
    return steps


def make_pool(*names: str, **settings: Any) -> Pool:
    """A pool of tools with these names; settings go to every worker."""
    return pool_from({"workers": [{"name": name, "kind": "text"} | settings for name in names]})


def one_worker(**changes: Any) -> dict[str, Any]:
    """The content of a pool with one worker `a`, an LLM unless said otherwise; None takes a key away."""
    worker = {"name": "a", "kind": "llm", "model": "openai/m"} | changes
    return {"workers": [{key: value for key, value in worker.items() if value is not None}]}


def within_cpu(seconds: int, act: Callable[[], object]) -> bool:
    """Whether `act` returns within so many seconds of a child process's CPU time.

    For work that takes milliseconds if it is linear and minutes if it is quadratic. C code such as a regular
    expression cannot be interrupted, so that the bound is the operating system's, on a process of its own.
    """
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        try:
            act()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
