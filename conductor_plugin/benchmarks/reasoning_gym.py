"""Families of generated puzzles, `rg:gcd` say: as many as wanted, offline, from the package reasoning-gym.

The library's question i under seed s is its question 0 under seed s + i: questions of neighbouring seeds would be
almost the same ones, and a test set a copy of its training set. Its seed is therefore a hash of the family and ours.
"""

import hashlib
import json
import re
from functools import lru_cache
from typing import Any

from conductor_plugin.benchmarks.question import GraderName, Question
from conductor_plugin.benchmarks.reader import with_rule
from conductor_plugin.benchmarks.source import INSTALL
from conductor_plugin.errors import ConductorError, InputError

PREFIX = "rg:"
COUNT = 100  # without a limit, since there is no end
RIGHT = 0.99  # several scorers give part of a point for a wrong answer
LONGEST_ANSWER = 20_000
TAGGED_RULE = "Give the final answer between <answer> and </answer>."
LINE_RULE = 'Give the final answer on the last line, as "Answer: …".'

_HASHES = "its questions change from process to process"
_EVALUATES = "its scorer evaluates the answer as Python"
_TUPLES = "its scorer wants tuples, which JSON does not keep"
_NO_GOLD = "it tells no right answer"
# Measured with reasoning-gym 0.1.25; the tests repeat the measurement for all families that are offered.
LEFT_OUT: dict[str, str] = {
    "composite": "it is a mixture of other families",
    "bf": "it prints to stdout",
    "acre": "its questions depend on how many are made",
    "list_functions": _HASHES,
    "isomorphic_strings": _HASHES,
    "knight_swap": _HASHES,
    "polynomial_multiplication": _HASHES,
    "ransom_note": _HASHES,
    "word_ladder": _HASHES,
    "arc_agi": _TUPLES,
    "rearc": _TUPLES,
    "boxnet": _NO_GOLD,
    "graph_color": _NO_GOLD,
    "propositional_logic": _NO_GOLD,
    "rubiks_cube": _NO_GOLD,
    "rush_hour": _NO_GOLD,
    "coin_flip": "its scorer takes 0 for any small number, and never ends on a large one",
    "complex_arithmetic": "its scorer takes nan for right",
    "tower_of_hanoi": "it prints to stdout",
    "puzzle24": "its scorer takes numbers that were not given",
    "binary_matrix": _EVALUATES,
    "intermediate_integration": _EVALUATES,
    "n_queens": _EVALUATES,
    "simple_integration": _EVALUATES,
    "spiral_matrix": _EVALUATES,
    "string_insertion": _EVALUATES,
}
# One text is right, and the family's scorer takes others too: with more after it, with another sign, anything.
EXACT = frozenset({"game_of_life_halting", "gsm_symbolic", "letter_jumble", "spell_backward"})
# `countdown` evaluates the answer too; sums and products of whole numbers are all that it is ever handed.
ARITHMETIC = re.compile(r"(?!.*\*\s*\*)[\d\s+\-*/()]{1,200}", re.DOTALL)


def families() -> list[str]:
    """The names of all families on offer, "rg:…"; ConductorError `benchmark_unavailable` without the package."""
    return [PREFIX + name for name in sorted(_library()[0]) if name not in LEFT_OUT]


def load(name: str, *, limit: int | None = None, seed: int = 0) -> list[Question]:
    """The first questions of a family under a seed; fewer are the beginning of more.

    A question has the grader `reasoning_gym`, which is `score`, if the family has a scorer of its own (several
    answers can be right, or one written in several ways) or if the gold has several lines; else `text`.
    InputError `benchmark_unknown` for a family that is not there, `bad_option` for a limit below 1.
    """
    if limit is not None and limit < 1:
        raise InputError(f"a limit is at least 1, not {limit}", code="bad_option")
    dataset = _dataset(name, limit or COUNT, seed)
    return [_question(name, dataset, seed, index) for index in range(limit or COUNT)]


def score(question: Question, answer: str) -> bool:
    """Is the answer right, by the family's own scorer? `answer` may be a whole response or the answer alone.

    What a scorer raises on is wrong: it is no answer of the form that was asked for.
    """
    name, given = question.benchmark, final(answer)
    dataset = _dataset(name, 1, 0)
    if not _has_scorer(name, dataset):
        return bool(given == question.gold)
    if len(given) > LONGEST_ANSWER or (name == "rg:countdown" and not ARITHMETIC.fullmatch(given)):
        return False
    try:
        return float(dataset.score_answer(given, question.metadata["entry"])) >= RIGHT
    except Exception:
        return False


def final(answer: str) -> str:
    """What stands between the last answer tags, or the whole answer."""
    tagged = re.findall(r"<answer>(.*?)</answer>", answer, re.DOTALL)
    return str(tagged[-1] if tagged else answer).strip()


def _question(name: str, dataset: Any, seed: int, index: int) -> Question:
    made = json.loads(json.dumps(dataset[index], default=str))
    gold = made["answer"]
    # A gold of several lines cannot be on the last line.
    grader: GraderName = "reasoning_gym" if _has_scorer(name, dataset) or "\n" in gold else "text"
    rule = LINE_RULE if grader == "text" else TAGGED_RULE
    return Question(
        id=f"{name}/{seed}/{index}",
        benchmark=name,
        text=with_rule(made["question"].strip(), rule),
        gold=gold,
        grader=grader,
        format_rule=rule,
        subject=dataset.category,
        metadata={"entry": made},
    )


def _has_scorer(name: str, dataset: Any) -> bool:
    """Has the family a scorer of its own that can be trusted? The library's default compares texts."""
    default = _library()[2].score_answer
    return name.removeprefix(PREFIX) not in EXACT and type(dataset).score_answer is not default


@lru_cache(maxsize=128)
def _dataset(name: str, size: int, seed: int) -> Any:
    known, create, _ = _library()
    family = name.removeprefix(PREFIX)
    if family in LEFT_OUT:
        raise InputError(f"the family {name} is left out: {LEFT_OUT[family]}", code="benchmark_unknown")
    if family not in known:
        raise InputError(f"reasoning-gym has no family {family!r}", code="benchmark_unknown")
    library_seed = int.from_bytes(hashlib.sha256(f"{family}/{seed}".encode()).digest()[:4], "big") // 2
    return create(family, seed=library_seed, size=size)


def _library() -> tuple[Any, Any, Any]:
    try:
        from reasoning_gym.dataset import ProceduralDataset
        from reasoning_gym.factory import DATASETS, create_dataset
    except ImportError:
        raise ConductorError(
            f"the package reasoning-gym is not installed: {INSTALL}", code="benchmark_unavailable"
        ) from None
    import reasoning_gym  # noqa: F401  registers the families

    return DATASETS, create_dataset, ProceduralDataset
