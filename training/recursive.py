"""What further rounds are worth: `python -m training.recursive`, after `python -m training.adaptive`.

The first round often fails where a planner that is blind gets a part of the pool: it knows how many workers there are,
not which. What they answered tells it, so that a second round can ask another one. From the model that was trained on
parts: a cold start of second rounds (`rounds`), then GRPO with a second round forced behind every first one, 0.25 on
the first (paper, "Recursion"); second plans are compared with those of their length at first, then all. Then every
plan is followed by another round, until one keeps the answer or the bound is reached; at 0, 1 and 2 further rounds.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.evaluation.evaluate import System
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.statistics import mean_of
from conductor_plugin.evaluation.tables import Cell, markdown_grid
from conductor_plugin.home import published
from conductor_plugin.models import Frozen
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.manifest import FILE, TrainedRules
from conductor_plugin.planners.saved import saved_at
from conductor_plugin.planners.trained_conductor import TrainedConductor
from conductor_plugin.pool import Pool
from training.adaptive import SMALLEST, adapted_in, parts, places
from training.config import PLANS_A_PROMPT, ColdStart, Recursion, Rules, Subsets, TrainConfig, load_config
from training.curriculum import taught
from training.export import export
from training.families import TRAINED, UNSEEN, questions
from training.grpo import training_pool
from training.learn import EACH, TextGrader, answered, completions, parser_of, seeded, store_in, use_threads
from training.lesson import Lesson
from training.reward import handed_on
from training.rounds import Asked, Rounds, cold_rounds, rounds_of, run_first
from training.tables import share_right

LESSONS = (
    Lesson(name="second-rounds", share=0.5, by_length=True, kept="length", rollouts=16),
    Lesson(name="keeping", share=0.5, kept="length", weight=0.05, schedule="cosine", rollouts=16),
)
"""Whom to ask again, then whether to. In one lesson, keeping won within 8 iterations, whatever the answer (run r1)."""
COLD = ColdStart(examples=9600, lr=3e-4, batch=64)
READ = 2
"""Questions of each family that the cold start has of each part of the pool."""
TESTED = 4
"""Test questions of each family, for every part of the pool."""
MOST = 2
"""Further rounds."""


class Recursing(Frozen):
    """Every plan of the planner `inner` ends with the Conductor, as in training, where it does not say so itself."""

    inner: Any
    name: str
    tries: int = 1

    async def propose(self, request: PlanRequest) -> Proposal:
        """The inner planner's plan and another round; three empty lists as they are."""
        proposal: Proposal = await self.inner.propose(request)
        plan, rules = proposal.plan, request.rules
        if plan is None or not plan.model_id or not rules.conductor or plan.model_id[-1] == rules.workers:
            return proposal
        return proposal.model_copy(update={"plan": handed_on(plan, rules.workers)})


def recursive(config: TrainConfig, iterations: int) -> TrainConfig:
    """The configuration of the run: parts of the pool, and a second round behind every first one."""
    size = len(training_pool(config).workers)
    return config.model_copy(
        update={
            "rules": Rules(max_steps=config.rules.max_steps, max_rounds=1),
            "grpo": config.grpo.model_copy(update={"iterations": iterations, "questions": config.grpo.questions // 2}),
            "subsets": Subsets(smallest=SMALLEST, largest=size),
            "recursion": Recursion(forced_share=1.0),
        }
    )


def trained(config: TrainConfig, start: Path, home: Path, say: Callable[[str], None]) -> Path:
    """The model after the cold start of second rounds and GRPO. Errors: those of `taught`."""
    rounds = drawn(config, start, home)

    def told(step: int, loss: float) -> None:
        if step % 25 == 0:
            say(f"cold start of second rounds {step}: loss {loss:.3f}")

    cold = published(home / "cold-rounds", lambda place: cold_rounds(start, place, rounds, COLD, told))
    return taught(config, cold, home, questions("train", EACH["train"]), TextGrader, say, LESSONS, rounds)


def drawn(config: TrainConfig, start: Path, home: Path) -> Rounds:
    """Rounds of the model's own plans, on every part of the pool; the same again, and nobody is asked twice."""
    pool, asked = training_pool(config), []
    for i, workers in enumerate(places(pool)):
        chosen = questions("train", READ * (i + 1))[-READ * len(TRAINED) :]
        repeated = [question for question in chosen for _ in range(PLANS_A_PROMPT)]
        part = pool.of(pool.workers[w] for w in workers)
        before = config.model_copy(update={"rules": Rules(max_steps=config.rules.max_steps)})
        texts = completions(before, part, start, repeated, 1.0, seed=i)
        asked += [
            Asked(question, workers, tuple(texts[k * PLANS_A_PROMPT : (k + 1) * PLANS_A_PROMPT]))
            for k, question in enumerate(chosen)
        ]
    return rounds_of(config, pool, asked, run_first(config, pool, asked, TextGrader, home / "cold-rounds.sqlite"))


def exported(config: TrainConfig, model: Path, folder: Path, pool: Pool) -> TrainedConductor:
    """The model as the planner that users run; exported once."""
    if not folder.exists():
        export(
            model,
            folder,
            pool=pool,
            questions=[question.text for question in questions("held-out", 1)],
            run=folder.parent.name,
            prompt=config.prompt,
            rules=TrainedRules.model_validate(config.rules.model_dump()),
            max_tokens=config.grpo.max_completion_tokens,
            subsets=True,
        )
    return TrainedConductor(model=saved_at(folder, FILE), any_question=True)


def systems(planner: TrainedConductor, part: Pool, steps: int) -> list[System]:
    """The planner on a part of the pool, with 0, 1, … further rounds.

    With none it is asked as for the first of several, as it was in training, and no plan calls for another round.
    """
    once = System(_name(0), planner.model_copy(update={"tries": 1}), part, max_rounds=1, max_steps=steps)
    return [once] + [
        System(_name(more), Recursing(inner=planner, name="recursing"), part, max_rounds=more, max_steps=steps)
        for more in range(1, MOST + 1)
    ]


def _name(more: int) -> str:
    return f"rounds:{more}"


def line(name: str, parts: Sequence[Sequence[Row]]) -> list[Cell]:
    """A row of the table: right and calls of workers for each number of further rounds, means of the parts' rows.

    The parts have the same questions, each of which is counted once in a part.
    """
    cells: list[Cell] = []
    for more in range(MOST + 1):
        own = [[row for row in rows if row.system == _name(more)] for rows in parts]
        right = fmean(share_right(rows) for rows in own)
        calls = fmean(mean_of(rows, "steps") or 0.0 for rows in own)
        cells += [right, f"{calls:.2f}"]
    return [name, sum(map(len, parts)) // (MOST + 1), *cells]


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m training.recursive`."""
    parser = parser_of(__doc__)
    parser.add_argument("--iterations", type=int, default=80)
    given = parser.parse_args(arguments)
    use_threads(given.threads)
    config = recursive(seeded(load_config("two-cores"), given.seed), given.iterations)
    home = given.folder / f"seed-{given.seed}"
    pool, store = training_pool(config), store_in(given.folder)
    model = trained(config, adapted_in(home), home, lambda sentence: print(sentence, flush=True))
    planner = exported(config, model, home / "recursive-planner", pool)
    columns = [column for more in range(MOST + 1) for column in (f"{more} further: right", "worker calls")]
    lines = []
    for families, told in ((TRAINED, "trained"), (UNSEEN, "unseen")):
        asked: list[Question] = questions("test", TESTED, families)
        for size in range(SMALLEST, len(pool.workers) + 1):
            alike = [part for part in parts(pool) if len(part.workers) == size]
            rows = [answered(systems(planner, part, config.rules.max_steps), asked, store) for part in alike]
            lines.append(line(f"{size}, {told}", rows))
    print(markdown_grid(("workers, families", "questions", *columns), lines))


if __name__ == "__main__":
    main()
