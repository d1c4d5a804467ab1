"""The lessons: what each is about, that one starts where the one before ended, and what an early end says."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import InputError
from training import curriculum
from training.adaptive import parts
from training.config import TrainConfig, load_config
from training.curriculum import Unfinished, configured, model_of, taught
from training.families import world_pool
from training.grpo import Finished
from training.lesson import Lesson

CONFIG = load_config("two-cores")
LESSONS = CONFIG.lessons
QUESTIONS = [
    Question(id=f"{subject}/{i}", benchmark=subject, text=f"{subject} {i}", gold="1", grader="text", subject=subject)
    for subject in ("single", "chained")
    for i in range(3)
]


@pytest.fixture
def runs(monkeypatch):
    """What `grpo.train` is asked for; it ends as `runs.ends` says."""

    class Runs(list):
        ends = "finished"

    made = Runs()

    def train(config, folder, **options):
        made.append((config, folder, options))
        return Finished(status=made.ends, step=config.grpo.iterations, reason="as told")

    monkeypatch.setattr(curriculum, "train", train)
    return made


def test_the_lessons_share_the_iterations():
    assert sum(lesson.share for lesson in LESSONS) == pytest.approx(1)
    iterations = [configured(CONFIG, lesson).grpo.iterations for lesson in LESSONS]
    assert sum(iterations) == CONFIG.grpo.iterations
    assert [lesson.first for lesson in LESSONS] == [True, False, False, False]


def test_each_lesson_is_about_one_thing():
    one_step, chained, lengths, everything = (configured(CONFIG, lesson) for lesson in LESSONS)
    assert one_step.rules.max_steps == 1
    assert {config.rules.max_steps for config in (chained, lengths, everything)} == {CONFIG.rules.max_steps}
    assert (chained.grpo.by_length, lengths.grpo.by_length) == (chained.grpo.iterations, 0)
    assert [config.gate.refuse for config in (one_step, chained, lengths, everything)] == [True, False, False, False]
    sizes = {config.grpo.questions * config.grpo.rollouts for config in (one_step, chained, lengths, everything)}
    assert sizes == {CONFIG.grpo.questions * CONFIG.grpo.rollouts}


def test_a_lesson_starts_where_the_one_before_ended(runs):
    home = Path("runs")
    model = taught(CONFIG, Path("cold"), home, QUESTIONS, lambda: None, lambda sentence: None)
    assert model == model_of(CONFIG, home) == home / "all" / "model"
    starts = [options["start"] for _, _, options in runs]
    assert starts == [Path("cold"), *(home / lesson.name / "model" for lesson in LESSONS[:-1])]
    subjects = [{q.subject for q in options["questions"].values()} for _, _, options in runs]
    assert subjects == [{"single"}, {"chained"}, {"single", "chained"}, {"single", "chained"}]
    kept = [options["rehearsal"] and options["rehearsal"].kept for _, _, options in runs]
    assert kept == ["all but the first worker", "length", "length", None]


def test_a_lesson_that_is_paused_ends_it(runs):
    runs.ends = "paused"
    with pytest.raises(Unfinished, match="the lesson only ended early: as told") as caught:
        taught(
            CONFIG, Path("cold"), Path("runs"), QUESTIONS, lambda: None, print, [Lesson(name="only", share=1), *LESSONS]
        )
    assert (caught.value.code, len(runs)) == ("paused", 1)


def test_one_run_cannot_teach_lessons(tmp_path):
    """`conductor train` would train on `questions`, which stand for nothing there."""
    from training.pipeline import run_training

    with pytest.raises(InputError, match=r"python -m training\.learn") as caught:
        run_training(CONFIG, tmp_path / "run")
    assert caught.value.code == "has_lessons"
    assert not (tmp_path / "run").exists()


def test_lessons_have_names_of_their_own():
    lessons = [{"name": "one", "share": 0.5}] * 2
    with pytest.raises(ValueError, match="a name of its own"):
        TrainConfig.model_validate(CONFIG.model_dump() | {"lessons": lessons})


def test_a_lesson_has_a_rate_of_its_own():
    lesson = Lesson(name="slow", share=1, lr=1e-5)
    assert configured(CONFIG, lesson).grpo.lr == 1e-5
    assert configured(CONFIG, LESSONS[0]).grpo.lr == CONFIG.grpo.lr


@pytest.mark.parametrize(
    ("asked", "size"),
    [
        ({}, (CONFIG.grpo.questions, CONFIG.grpo.rollouts)),
        ({"rollouts": 4}, (CONFIG.grpo.questions * CONFIG.grpo.rollouts // 4, 4)),
        ({"questions": 3}, (3, CONFIG.grpo.rollouts)),
        ({"questions": 3, "rollouts": 6}, (3, 6)),
    ],
)
def test_how_many_completions_a_lesson_has(asked, size):
    grpo = configured(CONFIG, Lesson(name="one", share=1, **asked)).grpo
    assert (grpo.questions, grpo.rollouts) == size


@pytest.mark.parametrize(("asked", "plans"), [({}, 64), ({"rollouts": 4}, 64), ({"questions": 4}, 32)])
def test_a_quarter_as_many_plans_are_rehearsed_as_a_lesson_samples(runs, asked, plans):
    lesson = Lesson(name="one", share=1, kept="length", **asked)
    taught(CONFIG, Path("cold"), Path("runs"), QUESTIONS, lambda: None, print, [lesson])
    [(settings, _, options)] = runs
    assert options["rehearsal"].size == plans == settings.grpo.questions * settings.grpo.rollouts // 4


def test_other_lessons_may_join_one_that_was_taught():
    """Their record is not another one then, so that the run goes on."""
    before = configured(CONFIG, LESSONS[0]).model_dump_json()
    added = CONFIG.model_copy(
        update={
            "lessons": (LESSONS[0].model_copy(update={"share": LESSONS[0].share / 2}), *LESSONS[1:]),
            "grpo": CONFIG.grpo.model_copy(update={"iterations": CONFIG.grpo.iterations * 2}),
        }
    )
    assert configured(added, added.lessons[0]).model_dump_json() == before
    assert configured(CONFIG, LESSONS[1]).model_dump_json() != before


def test_the_parts_of_a_pool():
    names = [tuple(worker.name for worker in part.workers) for part in parts(world_pool())]
    assert len(names) == len(set(names)) == 11
    assert names[0] == ("calculator", "number")
    assert names[-1] == ("calculator", "number", "text", "smollm2")
