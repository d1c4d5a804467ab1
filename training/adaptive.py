"""What training on random subsets of the pool is worth: `python -m training.adaptive`, after `make learn`.

From a seed's model, GRPO goes on with a random part of the pool for each question, renumbered as at inference. Both
models then plan the same test questions for every part of the pool. Neither is told who is in it: a planner that is
blind can tell a part by its size alone, so that it has to make plans that are right for most parts of that size.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.evaluation.statistics import SINGLE
from conductor_plugin.evaluation.store import Store
from conductor_plugin.evaluation.systems import make_systems
from conductor_plugin.evaluation.tables import Cell, markdown_grid
from conductor_plugin.pool import Pool
from training.config import Subsets, TrainConfig, load_config
from training.curriculum import model_of, taught
from training.families import questions
from training.grpo import training_pool
from training.learn import EACH, TextGrader, answered, parser_of, seeded, store_in, system_of, use_threads
from training.lesson import Lesson
from training.tables import share_right

LESSON = Lesson(name="adaptive", share=1.0, schedule="cosine", rollouts=16)
TESTED = 4
"""Test questions of each family, for every part of the pool."""
SMALLEST = 2


def adapted(config: TrainConfig, start: Path, home: Path, iterations: int, say: Callable[[str], None]) -> Path:
    """The model after so many iterations on random parts of the pool. Errors: those of `taught`."""
    size = len(training_pool(config).workers)
    settings = config.model_copy(
        update={
            "grpo": config.grpo.model_copy(update={"iterations": iterations}),
            "subsets": Subsets(smallest=SMALLEST, largest=size),
        }
    )
    return taught(settings, start, home, questions("train", EACH["train"]), TextGrader, say, [LESSON])


def adapted_in(home: Path) -> Path:
    """The model that `adapted` left in a seed's folder."""
    return home / LESSON.name / "model"


def places(pool: Pool) -> list[tuple[int, ...]]:
    """The workers of every part of the pool of at least two, the smallest first, the whole last."""
    everyone = range(len(pool.workers))
    return [chosen for size in range(SMALLEST, len(everyone) + 1) for chosen in combinations(everyone, size)]


def parts(pool: Pool) -> list[Pool]:
    """Those parts, as pools."""
    return [pool.of(pool.workers[i] for i in chosen) for chosen in places(pool)]


def lines(
    config: TrainConfig, models: dict[str, Path], asked: Sequence[Question], store: Store
) -> list[tuple[str, dict[str, float]]]:
    """For each part of the pool: the share that each model's plans, and the best single worker, get right."""
    found = []
    for part in parts(training_pool(config)):
        names = [worker.name for worker in part.workers]
        shares = {
            name: share_right(answered([system_of(name, config, part, model, asked, temperature=0)], asked, store))
            for name, model in models.items()
        }
        singles = answered(make_systems(part, [f"{SINGLE}{name}" for name in names]), asked, store)
        shares["best single worker"] = max(
            share_right(row for row in singles if row.system == f"{SINGLE}{name}") for name in names
        )
        found.append((", ".join(names), shares))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m training.adaptive`."""
    parser = parser_of(__doc__)
    parser.add_argument("--iterations", type=int, default=80)
    given = parser.parse_args(arguments)
    use_threads(given.threads)
    config = seeded(load_config("two-cores"), given.seed)
    home = given.folder / f"seed-{given.seed}"
    models = {"never saw parts": model_of(config, home)}
    models["trained on parts"] = adapted(config, models["never saw parts"], home, given.iterations, print)
    store = store_in(given.folder)
    found = lines(config, models, questions("test", TESTED), store)
    columns = list(found[0][1])
    rows: list[Sequence[Cell]] = [(names, *(shares[column] for column in columns)) for names, shares in found]
    means = [sum(shares[column] for _, shares in found[:-1]) / (len(found) - 1) for column in columns]
    print(markdown_grid(("pool", *columns), [*rows, ("mean of the parts", *means)]))


if __name__ == "__main__":
    main()
