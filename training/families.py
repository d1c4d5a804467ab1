"""The world of the proof on two cores: families of questions, made of items of reasoning-gym.

A single family asks one item, and one call of the right tool answers it. A chained family asks a second item about
the result of the first ("… Then multiply the result by 31."), which no one tool knows, so that no single call can be
right. Each item is worded in three ways. A few families are never trained on: some ask items that training does not
have, some put known items together anew, one has three parts, some ask what training asks in other words. Which worker
answers which family is nowhere written here; `tests/training` measures it.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from conductor_plugin.benchmarks import reasoning_gym
from conductor_plugin.benchmarks.question import Question
from conductor_plugin.models import Frozen
from conductor_plugin.pool import Pool, load_pool
from training.items import TAUGHT, asked

POOL = Path(__file__).parent / "pools" / "two-cores.yaml"
Split = Literal["train", "held-out", "test"]
SEEDS: dict[Split, int] = {"train": 501, "held-out": 502, "test": 503}
"""Seeds of reasoning-gym. `held-out` is for choices (a gate, a setting), `test` for the table alone."""


class Family(Frozen):
    """One kind of question: its item, then what is asked of each result. `trained` if training may see it.

    `reworded` asks the item in the words that training never has.
    """

    first: str
    then: tuple[str, ...] = ()
    trained: bool = True
    reworded: bool = False

    @property
    def name(self) -> str:
        """`gcd`, `gcd-then-products`, or `gcd-reworded`."""
        return "-then-".join((self.first, *self.then)) + "-reworded" * self.reworded

    @property
    def chained(self) -> bool:
        """Whether no single call can be right."""
        return bool(self.then)


FAMILIES = (
    Family(first="basic_arithmetic"),
    Family(first="products"),
    Family(first="gcd"),
    Family(first="count_bits"),
    Family(first="letter_counting"),
    Family(first="spell_backward"),
    Family(first="gcd", then=("products",)),
    Family(first="count_bits", then=("spell_backward",)),
    Family(first="letter_counting", then=("products",)),
    Family(first="products", then=("count_bits",)),
    Family(first="products", then=("spell_backward",)),
    Family(first="letter_counting", then=("lcm",)),
    Family(first="decimal_chain_sum", trained=False),
    Family(first="lcm", trained=False),
    Family(first="base_conversion", trained=False),
    Family(first="lcm", then=("products",), trained=False),
    Family(first="gcd", then=("chain_sum",), trained=False),
    Family(first="products", then=("gcd",), trained=False),
    Family(first="products", then=("base_conversion",), trained=False),
    Family(first="letter_counting", then=("products", "count_bits"), trained=False),
    Family(first="basic_arithmetic", trained=False, reworded=True),
    Family(first="products", trained=False, reworded=True),
    Family(first="gcd", trained=False, reworded=True),
    Family(first="count_bits", trained=False, reworded=True),
    Family(first="letter_counting", trained=False, reworded=True),
    Family(first="spell_backward", trained=False, reworded=True),
)
TRAINED = tuple(family for family in FAMILIES if family.trained)
UNSEEN = tuple(family for family in FAMILIES if not family.trained)


def world_pool() -> Pool:
    """The four workers: three exact tools and a small language model that is confident and mostly wrong."""
    return load_pool(POOL)


def questions(split: Split, each: int, families: Iterable[Family] = TRAINED) -> list[Question]:
    """`each` questions of each family, the families in turn; none of an earlier split comes again, in whatever words.

    Fewer are the beginning of more. The same on any machine with the same version of reasoning-gym.
    """
    columns = [_family_questions(family, split, each) for family in families]
    return [column[i] for i in range(each) for column in columns]


def _family_questions(family: Family, split: Split, count: int) -> list[Question]:
    names = list(SEEDS)
    taken = {made.plain for earlier in names[: names.index(split)] for made in _made(family, SEEDS[earlier])}
    made = [each for each in {m.plain: m for m in _made(family, SEEDS[split])}.values() if each.plain not in taken]
    if len(made) < count:
        raise ValueError(f"the family {family.name} has {len(made)} questions in {split}, not {count}")
    return [
        Question(
            id=f"two-cores:{family.name}/{split}/{i}",
            benchmark=f"two-cores:{family.name}",
            text=each.text,
            gold=each.gold,
            grader="text",
            subject="chained" if family.chained else "single",
        )
        for i, each in enumerate(made[:count])
    ]


MOST = 800
"""Questions of a family and a split; as many are made, so that splits do not hang on how many are asked for."""


class Made(NamedTuple):
    """A question, its answer, and how it reads in the first wording: the same question in any words has that one."""

    plain: str
    text: str
    gold: str


@cache
def _made(family: Family, seed: int) -> tuple[Made, ...]:
    """The questions, without those that luck can answer.

    That is where a part leaves the result as it was, so that one call of a chain is right, and where the answer stands
    in the question, so that repeating a number of it is.
    """
    columns = [
        [question.metadata["entry"] for question in reasoning_gym.load(f"rg:{item}", limit=MOST, seed=seed + 1000 * i)]
        for i, item in enumerate((family.first, *family.then))
    ]
    made = []
    for row in zip(*columns, strict=True):
        text, values = asked(family.first, family.then, row, TAUGHT if family.reworded else None)
        if _needs_work(text, values):
            made.append(Made(asked(family.first, family.then, row, 0)[0], text, values[-1]))
    return tuple(made)


def _needs_work(text: str, values: list[str]) -> bool:
    return len(set(values)) == len(values) and values[-1] not in re.findall(r"-?\w+(?:\.\w+)*", text)
