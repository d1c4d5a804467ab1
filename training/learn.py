"""The proof on two cores, `make learn`: from nothing to a table, seed by seed.

Each seed makes its own tokenizer and model, learns the format alone, is trained by GRPO with the trainer and reward of
the GPU path (only sampling and log-probabilities are the faster ones of `training/fast`), and answers questions that
no choice has seen. The baselines answer the same ones.

folder/answers.sqlite        all answers of workers, of all seeds
folder/seed-0/cold-start/    model and tokenizer that know the format
folder/seed-0/LESSON/        the runs, see `curriculum` and `grpo`; `model/` in the last is what was learnt
folder/seed-0/rows.jsonl     what the model answered before and after, see `evaluation.rows`
folder/report.md, curve.png  the table of all seeds
folder/conductor/            the best seed on held-out questions, for `--planner conductor:FOLDER`
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.errors import ConductorError
from conductor_plugin.evaluation.evaluate import System, evaluate, tasks_of
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.store import Store
from conductor_plugin.grading.text import grade_text
from conductor_plugin.grading.verdict import Verdict
from conductor_plugin.home import published
from conductor_plugin.pool import Pool
from training.cold_start import cold_start
from training.compared import COLD, LEARNED, LOT, SAMPLED, baselines, by_lot, written
from training.config import TrainConfig, load_config
from training.curriculum import model_of, taught
from training.families import FAMILIES, questions
from training.fast.sampler import sample
from training.grpo import training_pool
from training.questions import pool_of, prompt_of, request_of
from training.ship import ship
from training.tables import share_right

EACH: Mapping[str, int] = {"train": 200, "held-out": 10, "test": 12}
"""Questions of each family."""
TALKS = ("reflection:", "consensus:")
FEW = 3
"""Questions of each family that a language model answers five times over."""
CHECKED = 25
"""Held-out questions of each family before training: two plans by lot differ by 0.03 on so many, by 0.04 on ten."""
NO_HEAD_START = 0.05
"""How far the cold start's accuracy may be from that of plans by lot, in shares of 1."""

Say = Callable[[str], None]


class HeadStart(ConductorError):
    """The cold start knows more, or less, than the format."""


class TextGrader:
    """Judges in this process: the families' answers are numbers and words, and never formulas."""

    async def grade(self, question: Question, answer: str) -> Verdict:
        """Right or wrong."""
        return grade_text(question.gold, answer)


def learn(config: TrainConfig, folder: Path, seed: int, say: Say) -> list[Row]:
    """One seed, from nothing to rows: of the cold start, of plans by lot, and of what was learnt.

    ConductorError `head_start` if the cold start is not as good as plans by lot; else as `train`.
    """
    home = folder / f"seed-{seed}"
    config = seeded(config, seed)
    pool = training_pool(config)
    store = store_in(folder)
    published(
        home / "cold-start",
        lambda place: cold_start(config, pool, questions("train", EACH["train"]), place, on_step=_told(say)),
    )
    if not (home / config.lessons[0].name).exists():  # else the seed goes on: it was checked before it began
        check_head_start(config, pool, home / "cold-start", store, say)
    model = taught(config, home / "cold-start", home, questions("train", EACH["train"]), TextGrader, say)
    test = questions("test", EACH["test"], FAMILIES)
    systems = [
        system_of(LEARNED, config, pool, model, test, temperature=0),
        system_of(SAMPLED, config, pool, model, test, temperature=1, seed=seed),
        system_of(COLD, config, pool, home / "cold-start", test, temperature=1, seed=seed),
        by_lot(test, pool, config),
    ]
    rows = [row.model_copy(update={"repeat": seed}) for row in answered(systems, test, store)]
    (home / "rows.jsonl").write_text("".join(row.model_dump_json() + "\n" for row in rows), encoding="utf-8")
    return rows


def best_seed(config: TrainConfig, folder: Path, seeds: int, say: Say) -> int:
    """The seed whose model is right most often on held-out questions, of equal ones the first.

    Unseen families are among them: on those trained on, all seeds may be right, and users ask in other words.
    """
    pool, asked = training_pool(config), questions("held-out", EACH["held-out"], FAMILIES)
    store = store_in(folder)
    shares = [
        share_right(
            answered(
                [system_of(LEARNED, config, pool, model_of(config, folder / f"seed-{seed}"), asked, temperature=0)],
                asked,
                store,
            )
        )
        for seed in range(seeds)
    ]
    say(f"right on {len(asked)} held-out questions, by seed: {', '.join(f'{share:.3f}' for share in shares)}")
    return shares.index(max(shares))


def store_in(folder: Path) -> Store:
    """The answers of workers that all seeds share."""
    return Store(f"sqlite:///{folder / 'answers.sqlite'}")


def seeded(config: TrainConfig, seed: int) -> TrainConfig:
    """The configuration with that seed everywhere."""
    assert config.cold_start is not None
    return config.model_copy(
        update={
            "cold_start": config.cold_start.model_copy(update={"seed": seed}),
            "grpo": config.grpo.model_copy(update={"seed": seed}),
        }
    )


def check_head_start(config: TrainConfig, pool: Pool, model: Path, store: Store, say: Say) -> None:
    """HeadStart `head_start` unless the sampled cold start is as good as plans by lot, on held-out questions."""
    asked = questions("held-out", CHECKED)
    systems = [
        system_of(COLD, config, pool, model, asked, temperature=1),
        by_lot(asked, pool, config),
    ]
    rows = answered(systems, asked, store)
    cold, lot = (share_right(row for row in rows if row.system == name) for name in (COLD, LOT))
    say(f"sampled cold start {cold:.3f}, plans by lot {lot:.3f}, on {len(asked)} held-out questions")
    if abs(cold - lot) > NO_HEAD_START:
        raise HeadStart(
            f"the cold start answers {cold:.3f}, plans by lot {lot:.3f}: it has learnt more or less than the format",
            code="head_start",
        )


def answered(systems: Sequence[System], asked: Sequence[Question], store: Store) -> list[Row]:
    """The systems' rows on the questions."""
    return asyncio.run(evaluate(tasks_of(systems, asked, 1), store=store, grader=TextGrader()))


def baseline_rows(config: TrainConfig, folder: Path) -> list[Row]:
    """The baselines on the test questions; five answers of a language model on a part of them."""
    pool = training_pool(config)
    store = store_in(folder)
    talkers = [worker.name for worker in pool.workers if worker.kind == "local"]
    dear = [f"{kind}{name}" for kind in TALKS for name in talkers]
    systems = baselines(pool)
    rows = answered([s for s in systems if s.name not in dear], questions("test", EACH["test"], FAMILIES), store)
    return rows + answered([s for s in systems if s.name in dear], questions("test", FEW, FAMILIES), store)


def completions(
    config: TrainConfig, pool: Pool, folder: Path, asked: Sequence[Question], temperature: float, seed: int = 0
) -> list[str]:
    """What the model in the folder writes for each question."""
    import torch

    from training.models import load_model

    model, tokenizer, _ = load_model(config, folder)
    prompts = [
        tokenizer(prompt_of(request_of(q, pool_of(pool, q, range(len(pool.workers))), config.rules), config.prompt))
        for q in asked
    ]
    written_ids = sample(
        model,
        [prompt["input_ids"] for prompt in prompts],
        most=config.grpo.max_completion_tokens,
        end=tokenizer.eos_token_id,
        temperature=temperature,
        generator=torch.Generator().manual_seed(seed),
    )
    texts: list[str] = tokenizer.batch_decode(written_ids, skip_special_tokens=True)
    return texts


def system_of(
    name: str,
    config: TrainConfig,
    pool: Pool,
    model: Path,
    asked: Sequence[Question],
    *,
    temperature: float,
    seed: int = 0,
) -> System:
    texts = completions(config, pool, model, asked, temperature, seed)
    return written(name, asked, texts, pool, config.rules.max_steps)


def _told(say: Say) -> Callable[[int, float], None]:
    started = time.monotonic()

    def told(step: int, loss: float) -> None:
        if step % 25 == 0:
            say(f"cold start {step}: loss {loss:.3f}, {time.monotonic() - started:.0f} s")

    return told


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m training.learn`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", default="two-cores")
    parser.add_argument("--folder", type=Path, default=Path("runs/two-cores"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="1 where others use the cores too")
    given = parser.parse_args(arguments)
    use_threads(given.threads)
    config = load_config(given.config)
    given.folder.mkdir(parents=True, exist_ok=True)
    rows = [row for seed in range(given.seeds) for row in learn(config, given.folder, seed, _say)]
    from training.report import write_report

    report = write_report(config, rows, baseline_rows(config, given.folder), given.folder, given.seeds)
    _say(report)
    seed = best_seed(config, given.folder, given.seeds, _say)
    planner = ship(
        config,
        model_of(config, given.folder / f"seed-{seed}"),
        given.folder / "conductor",
        training_pool(config),
        f"{Path(given.config).stem}-seed-{seed}",
        f"Of seed {seed}, the best of {given.seeds} on held-out questions; the table has all of them.\n\n{report}",
    )
    _say(f"exported; use it with --planner conductor:{planner} --pool {config.pool}")


def parser_of(about: str | None) -> argparse.ArgumentParser:
    """The options of a script that goes on from a seed of `make learn`; `about` is its docstring."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/two-cores"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    return parser


def use_threads(count: int) -> None:
    """Threads spin while they wait for each other: two of them are slower than one on cores that are busy."""
    import torch

    torch.set_num_threads(count)


def _say(sentence: str) -> None:
    print(sentence, flush=True)


if __name__ == "__main__":
    main()
