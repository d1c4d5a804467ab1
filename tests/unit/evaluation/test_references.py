"""References first: a question whose own solution fails here is neither asked nor counted."""

import pytest

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import ConductorError
from conductor_plugin.evaluation import references
from conductor_plugin.evaluation.evaluate import System, tasks_of
from conductor_plugin.evaluation.references import References, only_gradeable, reference_failures
from conductor_plugin.evaluation.report import write_report
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.store import Store
from conductor_plugin.planners import make_planner
from conductor_plugin.sandbox import probe
from tests.sandbox.machine import MUST
from tests.unit import workbench

PROMPT = 'def f(x):\n    """Twice x."""\n'
TEST = "def check(candidate):\n    assert candidate(2) == 4\n"
RIGHT, LACKING, WRONG = "    return 2 * x\n", "    import no_such_library\n", "    return x\n"


def code(name, reference, benchmark="made up"):
    gold = {"test": TEST, "entry_point": "f", "prompt": PROMPT, "style": "check"}
    metadata = {"reference": reference}
    return Question(id=name, benchmark=benchmark, text="?", gold=gold, grader="code_tests", metadata=metadata)


def tasks(*questions):
    pool = workbench.pool_of("ok", "echo")
    systems = [System(name, make_planner(pool, name), pool) for name in ("single:ok", "single:echo")]
    return tasks_of(systems, questions, 2)


@pytest.fixture(autouse=True)
def _sandbox():
    if not probe().safe:
        (pytest.fail if MUST else pytest.skip)(probe().sentence)


@pytest.fixture
def store(tmp_path):
    return Store(f"sqlite:///{tmp_path / 'store.sqlite'}")


@pytest.fixture
def runs(monkeypatch):
    """The references that are really run."""
    made, run = [], references.run_references

    async def counted(questions, programs, **options):
        made.extend(question.id for question in questions)
        return await run(questions, programs, **options)

    monkeypatch.setattr(references, "run_references", counted)
    return made


TEXT = Question(id="t", benchmark="another", text="?", gold="1", grader="text")
MIXED = (code("a", RIGHT), code("b", LACKING), code("c", WRONG), code("d", "    return x + x\n", "more"), TEXT)


async def test_only_what_can_be_graded_is_left(store, runs):
    left, found = await only_gradeable(tasks(*MIXED), store, 2)
    assert [task.question.id for task in left] == ["a", "a", "d", "d", "t", "t"] * 2
    assert sorted(runs) == ["a", "b", "c", "d"]  # each once, whatever systems and repeats there are
    assert [(one.benchmark, one.questions, list(one.failed)) for one in found] == [
        ("made up", 3, ["b", "c"]),
        ("more", 1, []),
    ]
    assert "no_such_library" in found[0].failed["b"]
    assert found[0].sentence.startswith("made up: 1 of 3 gradeable here")


async def test_a_second_time_nothing_is_run_unless_the_environment_has_changed(store, runs, monkeypatch):
    first = await only_gradeable(tasks(*MIXED), store, 2)
    assert (await only_gradeable(tasks(*MIXED), store, 2), len(runs)) == (first, 4)
    monkeypatch.setattr(references, "distributions", lambda: [])
    assert (await only_gradeable(tasks(*MIXED), store, 2), len(runs)) == (first, 8)


async def test_where_nothing_can_be_graded_nobody_is_asked(store):
    with pytest.raises(ConductorError, match="none of the 1 questions can be graded here") as caught:
        await only_gradeable(tasks(code("b", LACKING)), store, 1)
    assert caught.value.code == "nothing_gradeable"


async def test_other_benchmarks_run_nothing(store, runs):
    assert await only_gradeable(tasks(TEXT), store, 1) == (tasks(TEXT), [])
    assert runs == []


def test_the_report_says_so(tmp_path):
    found = [References(benchmark="made up", questions=3, failed={"b": "no library", "c": "no library"})]
    row = Row(system="single:ok", benchmark="made up", question="a", repeat=0, outcome="right")
    write_report([row], tmp_path, title="A report", references=found, plots=False)
    text = (tmp_path / "report.md").read_text()
    assert "- made up: 1 of 3 gradeable here" in text
    assert "| made up | no library | 2 |" in text
    assert reference_failures([References(benchmark="x", questions=1, failed={})]) == []
