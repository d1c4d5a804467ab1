"""The world of the proof on two cores: families of questions, made of items of reasoning-gym.

A single family asks one item, and one call of the right tool answers it. A chained family asks a second item about
the result of the first ("… Then multiply the result by 31."), which no one tool knows, so that no single call can be
right. A few families are never trained on: some ask items that training does not have, some put known items together
anew, one has three parts. Which worker answers which family is nowhere written here; `tests/training` measures it.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from math import gcd, lcm
from pathlib import Path
from typing import Any, Literal

from conductor_plugin.benchmarks import reasoning_gym
from conductor_plugin.benchmarks.question import Question
from conductor_plugin.models import Frozen
from conductor_plugin.pool import Pool, load_pool

POOL = Path(__file__).parent / "pools" / "two-cores.yaml"
Split = Literal["train", "held-out", "test"]
SEEDS: dict[Split, int] = {"train": 501, "held-out": 502, "test": 503}
"""Seeds of reasoning-gym. `held-out` is for choices (a gate, a setting), `test` for the table alone."""


class Family(Frozen):
    """One kind of question: its item, then what is asked of each result. `trained` if training may see it."""

    first: str
    then: tuple[str, ...] = ()
    trained: bool = True

    @property
    def name(self) -> str:
        """`gcd`, or `gcd-then-products`."""
        return "-then-".join((self.first, *self.then))

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
)
TRAINED = tuple(family for family in FAMILIES if family.trained)
UNSEEN = tuple(family for family in FAMILIES if not family.trained)


def world_pool() -> Pool:
    """The four workers: three exact tools and a small language model that is confident and mostly wrong."""
    return load_pool(POOL)


def questions(split: Split, each: int, families: Iterable[Family] = TRAINED) -> list[Question]:
    """`each` questions of each family, the families in turn; no text of an earlier split comes again.

    Fewer are the beginning of more. The same on any machine with the same version of reasoning-gym.
    """
    columns = [_family_questions(family, split, each) for family in families]
    return [column[i] for i in range(each) for column in columns]


def _family_questions(family: Family, split: Split, each: int) -> list[Question]:
    names = list(SEEDS)
    taken = {made[0] for earlier in names[: names.index(split)] for made in _made(family, SEEDS[earlier])}
    made = [each for text, each in {m[0]: m for m in _made(family, SEEDS[split])}.items() if text not in taken]
    if len(made) < each:
        raise ValueError(f"the family {family.name} has {len(made)} questions in {split}, not {each}")
    return [
        Question(
            id=f"two-cores:{family.name}/{split}/{i}",
            benchmark=f"two-cores:{family.name}",
            text=text,
            gold=gold,
            grader="text",
            subject="chained" if family.chained else "single",
        )
        for i, (text, gold) in enumerate(made[:each])
    ]


MOST = 800
"""Questions of a family and a split; as many are made, so that splits do not hang on how many are asked for."""


@cache
def _made(family: Family, seed: int) -> tuple[tuple[str, str], ...]:
    """Text and gold of each question, without those that luck can answer.

    That is where a part leaves the result as it was, so that one call of a chain is right, and where the answer stands
    in the question, so that repeating a number of it is.
    """
    columns = [
        [question.metadata["entry"] for question in reasoning_gym.load(f"rg:{item}", limit=MOST, seed=seed + 1000 * i)]
        for i, item in enumerate((family.first, *family.then))
    ]
    asked = (_asked(family, row) for row in zip(*columns, strict=True))
    return tuple((text, values[-1]) for text, values in asked if _needs_work(text, values))


def _needs_work(text: str, values: list[str]) -> bool:
    return len(set(values)) == len(values) and values[-1] not in re.findall(r"-?\w+(?:\.\w+)*", text)


def _asked(family: Family, entries: tuple[dict[str, Any], ...]) -> tuple[str, list[str]]:
    """The text of all parts, and the answer to each."""
    text, value = _first(family.first, entries[0])
    values = [value]
    for item, entry in zip(family.then, entries[1:], strict=True):
        sentence, result = ON_RESULT[item](int(values[-1]), entry["metadata"])
        text = f"{text}{'' if text[-1] in '.?' else '.'} Then {sentence}."
        values.append(str(result))
    return text, values


def _first(item: str, entry: dict[str, Any]) -> tuple[str, str]:
    """The library's own question, without what it says about the answer's form or shows as an example."""
    text, answer = entry["question"].strip(), entry["answer"]
    if item == "spell_backward":
        return f'Spell the word "{entry["metadata"]["word"]}" backward.', answer
    if item == "base_conversion":
        data = entry["metadata"]
        return f"Convert {data['source_repr']} from base {data['source_base']} to base {data['target_base']}.", answer
    return re.sub(
        " Give only .*|^State the final answer to the following arithmetic problem: |=$", "", text
    ).strip(), answer


def _times(value: int, item: dict[str, Any]) -> tuple[str, int]:
    factor = int(item["expression"].split(" * ")[-1])
    return f"multiply the result by {factor}", value * factor


def _plus(value: int, item: dict[str, Any]) -> tuple[str, int]:
    *_, sign, term = item["expression"].split()
    if sign == "+":
        return f"add {term} to the result", value + int(term)
    return f"subtract {term} from the result", value - int(term)


def _divisor(value: int, item: dict[str, Any]) -> tuple[str, int]:
    other = item["numbers"][-1]
    return f"find the greatest common divisor of the result and {other}", gcd(value, other)


def _multiple(value: int, item: dict[str, Any]) -> tuple[str, int]:
    other = item["numbers"][-1]
    return f"find the least common multiple of the result and {other}", lcm(value, other)


def _bits(value: int, item: dict[str, Any]) -> tuple[str, int]:
    return "count the 1 bits in the binary representation of the result", value.bit_count()


def _base(value: int, item: dict[str, Any]) -> tuple[str, str]:
    base = item["target_base"]
    digits = ""
    while value or not digits:
        value, digit = divmod(value, base)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"convert the result to base {base}", digits


def _backward(value: int, item: dict[str, Any]) -> tuple[str, str]:
    return "spell the result backward", str(value)[::-1]


ON_RESULT: dict[str, Callable[[int, dict[str, Any]], tuple[str, int | str]]] = {
    "products": _times,
    "chain_sum": _plus,
    "gcd": _divisor,
    "lcm": _multiple,
    "count_bits": _bits,
    "base_conversion": _base,
    "spell_backward": _backward,
}
