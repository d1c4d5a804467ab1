"""The grading processes: lazy, bounded, replaced, cancelled; and what is the answer's fault and what is not."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from conductor_plugin.benchmarks.question import GraderName, Question
from conductor_plugin.grading import Graders, gold_against_gold, graders, processes, worker
from conductor_plugin.grading.processes import GradingProcess, ProcessLost
from conductor_plugin.grading.verdict import Verdict
from tests.unit.grading.data import rows_or_skip


def question(gold: str, grader: GraderName = "math", options: tuple[str, ...] = ()) -> Question:
    return Question(id="made/1", benchmark="made", text="?", gold=gold, grader=grader, options=options)


def pids(pool: Graders) -> list[int]:
    found = [process._process for process in pool._all]
    return [process.pid for process in found if process is not None]


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def file(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


async def test_every_kind_of_text_is_judged_in_processes_that_start_when_needed() -> None:
    async with Graders(processes=2) as pool:
        assert pids(pool) == []
        assert (await pool.grade(question(r"\frac{1}{2}"), r"\boxed{0.5}")).outcome == "right"
        assert len(pids(pool)) == 1
        assert (await pool.grade(question("B", "choice", ("x", "y")), "Answer: B")).extracted == "B"
        assert (await pool.grade(question("Paris", "text"), "The answer is Paris.")).outcome == "right"
        assert (await pool.grade(question("5"), "")).outcome == "unparsed"
        started = pids(pool)
    assert not any(map(lives, started))


async def test_verdicts_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    judge = GradingProcess.judge

    async def counted(self: GradingProcess, *request: object) -> Verdict:
        asked.append(request)
        return await judge(self, *request)  # type: ignore[arg-type]

    monkeypatch.setattr(GradingProcess, "judge", counted)
    async with Graders(processes=1) as pool:
        verdicts = [await pool.grade(question("7"), r"\boxed{7}") for _ in range(3)]
        await pool.grade(question("8"), r"\boxed{7}")
    assert {verdict.outcome for verdict in verdicts} == {"right"}
    assert len(asked) == 2


@pytest.mark.parametrize("monster", [r"10^{10^{10}} + \int_0^1 x dx", r"\int_0^1 \sin(\sin(x^{x^x}))^{\cos(e^x)} dx"])
async def test_a_symbolic_monster_is_wrong_and_holds_up_nobody(monster: str) -> None:
    async with Graders(processes=2) as pool:
        judged = asyncio.create_task(pool.grade(question(r"\int_0^1 x dx"), rf"\boxed{{{monster}}}"))
        others = [pool.grade(question(str(n)), rf"\boxed{{{n}}}") for n in range(20)]
        assert {verdict.outcome for verdict in await asyncio.gather(*others)} == {"right"}
        verdict = await judged
        assert (verdict.outcome, verdict.extracted) == ("wrong", monster)
        assert "processor time" in verdict.detail
        assert (await pool.grade(question("3"), r"\boxed{3}")).outcome == "right"


async def test_a_killed_process_is_replaced() -> None:
    async with Graders(processes=1) as pool:
        assert (await pool.grade(question("1"), r"\boxed{1}")).outcome == "right"
        (killed,) = pids(pool)
        os.kill(killed, signal.SIGKILL)
        assert (await pool.grade(question("2"), r"\boxed{2}")).outcome == "right"
        assert pids(pool) != [killed]


async def test_a_stopped_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "REPLY_SECONDS", 2.0)
    async with Graders(processes=1) as pool:
        await pool.grade(question("1"), r"\boxed{1}")
        (stopped,) = pids(pool)
        os.kill(stopped, signal.SIGSTOP)
        assert (await pool.grade(question("2"), r"\boxed{2}")).outcome == "right"
    assert not lives(stopped)


async def test_an_answer_that_ends_every_process_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = GradingProcess.judge

    async def fatal(self: GradingProcess, grader: str, gold: str, answer: str, options: tuple[str, ...]) -> Verdict:
        if "fatal" in answer:
            raise ProcessLost("killed")
        return await judge(self, grader, gold, answer, options)

    monkeypatch.setattr(GradingProcess, "judge", fatal)
    async with Graders(processes=1) as pool:
        assert (await pool.grade(question("1"), "fatal")).outcome == "wrong"
        assert (await pool.grade(question("1"), r"\boxed{1}")).outcome == "right"


async def test_where_no_process_works_nothing_is_judged_and_nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Graders(processes=1) as pool:
        with monkeypatch.context() as broken:
            broken.setattr(processes, "MODULE", "conductor_plugin.grading.not_there")
            verdict = await pool.grade(question("1"), r"\boxed{1}")
            assert (verdict.outcome, verdict.extracted) == ("infrastructure", None)
        assert (await pool.grade(question("1"), r"\boxed{1}")).outcome == "right"


async def test_cancelling_leaves_the_others_alone() -> None:
    async with Graders(processes=1) as pool:
        await pool.grade(question("1"), r"\boxed{1}")
        os.kill(pids(pool)[0], signal.SIGSTOP)
        cancelled = asyncio.create_task(pool.grade(question("3"), r"\boxed{3}"))
        waiting = asyncio.create_task(pool.grade(question("2"), r"\boxed{2}"))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        verdict = await waiting
        assert (verdict.outcome, verdict.extracted) == ("right", "2")


async def test_cancelled_and_kept_requests_get_their_own_verdicts() -> None:
    async with Graders(processes=2) as pool:
        tasks = [asyncio.create_task(pool.grade(question(str(n)), rf"\boxed{{{n}}}")) for n in range(200)]
        for n in range(0, 200, 20):
            await asyncio.sleep(0.002)
            tasks[n].cancel()
        verdicts = await asyncio.gather(*tasks, return_exceptions=True)
    for n, verdict in enumerate(verdicts):
        if not isinstance(verdict, BaseException):
            assert (verdict.outcome, verdict.extracted) == ("right", str(n))
    assert sum(isinstance(verdict, Verdict) for verdict in verdicts) >= 190


async def test_processes_know_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    async with Graders(processes=1) as pool:
        await pool.grade(question("1"), r"\boxed{1}")
        assert b"sk-secret" not in file(pids(pool)[0], "environ")


@pytest.mark.parametrize("answer", ["\ud800 \\boxed{5}", "\0\\boxed{5}\0", "x" * 2_000_000 + r"\boxed{5}"])
async def test_odd_texts(answer: str) -> None:
    async with Graders(processes=1) as pool:
        assert (await pool.grade(question("5"), answer)).outcome == "right"


async def test_no_sandbox_is_infrastructure(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object, **__: object) -> Verdict:
        raise graders.SandboxUnavailable("install bubblewrap")

    monkeypatch.setattr(graders, "grade_code_io", refused)
    asked = Question(id="made/2", benchmark="made", text="?", gold={"tests": []}, grader="code_io")
    async with Graders() as pool:
        verdict = await pool.grade(asked, "```python\n1\n```")
    assert (verdict.outcome, verdict.detail) == ("infrastructure", "install bubblewrap")


def test_none_is_too_few() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Graders(processes=0)


async def test_gold_against_gold_on_math500() -> None:
    rows = rows_or_skip("math500.jsonl")
    questions = [question(row["answer"]).model_copy(update={"id": f"math500/{n}"}) for n, row in enumerate(rows)]
    async with Graders(processes=2) as pool:
        found = await gold_against_gold(questions, pool)
        solutions = [await pool.grade(asked, row["solution"]) for asked, row in zip(questions, rows, strict=True)]
    assert (found.gradeable, found.questions) == (500, 500)
    assert [verdict.outcome for verdict in solutions] == ["right"] * 500


async def test_a_gold_that_is_not_right_is_found() -> None:
    asked = [question("7"), question("E", "choice", ("x", "y")), question("B", "choice", ("x", "y"))]
    named = [one.model_copy(update={"id": str(n)}) for n, one in enumerate(asked)]
    async with Graders(processes=1) as pool:
        found = await gold_against_gold(named, pool)
    assert (found.gradeable, list(found.failed)) == (2, ["1"])


async def test_memory_is_bounded() -> None:
    async with Graders(processes=1) as pool:
        await pool.grade(question("1"), r"\boxed{1}")
        limits = file(pids(pool)[0], "limits").decode()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max address space")]
    assert line.split()[3:5] == [str(worker.MEMORY_BYTES)] * 2
