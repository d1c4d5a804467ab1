"""Math verdicts a second with two grading processes: right pairs, wrong pairs, each pair new to the process.

Bar: at least 200 a second, right and wrong. The pairs are MATH-500's answers where its file is there
(`$CONDUCTOR_TEST_DATA`, or ../shared/data), else made up; right ones are written in another way than the gold.
"""

import asyncio
import random
import time

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.grading import Graders
from conductor_plugin.grading.verdict import Verdict
from tests.unit.grading.data import rows

Pair = tuple[str, str]


def golds() -> list[str]:
    """Answers of competition mathematics: two of three are whole numbers."""
    if real := rows("math500.jsonl"):
        return [str(row["answer"]) for row in real]
    numbers = random.Random(0)
    made = (r"\frac{{{}}}{{{}}}", r"{}\sqrt{{{}}}", r"\left( {}, \frac{{\pi}}{{{}}} \right)", "{}x^2-{}x", "({},{}]")
    return [
        str(n) if n % 3 else numbers.choice(made).format(numbers.randint(2, 999), numbers.randint(2, 999))
        for n in range(1500, 2000)
    ]


def rewritten(gold: str) -> str:
    """The same answer as another model would write it: never the gold's own text."""
    for one, other in ((r"\frac", r"\dfrac"), (r"\sqrt{", r"\sqrt {"), (r"\pi", r"{\pi}"), ("+", " + 0 + ")):
        if one in gold and "text" not in gold:
            return gold.replace(one, other)
    return f"{gold}." if gold.isdigit() else rf"\left.{gold}\right."


async def rate(graders: Graders, pairs: list[Pair]) -> tuple[float, list[Verdict]]:
    """Verdicts a second, all asked at once."""
    started = time.perf_counter()
    questions = [
        Question(id=str(n), benchmark="speed", text="", gold=gold, grader="math") for n, (gold, _) in enumerate(pairs)
    ]
    verdicts = await asyncio.gather(
        *(
            graders.grade(question, rf"So it is \boxed{{{answer}}}.")
            for question, (_, answer) in zip(questions, pairs, strict=True)
        )
    )
    return len(pairs) / (time.perf_counter() - started), verdicts


async def main() -> None:
    """Print the figures."""
    answers = golds()
    hard = [gold for gold in answers if not gold.isdigit()]
    kinds = {
        "gold against gold": list(zip(answers, answers, strict=True)),
        "right, rewritten": [(gold, rewritten(gold)) for gold in answers],
        "wrong": list(zip(answers, answers[1:] + answers[:1], strict=True)),
        "right, no whole numbers": [(gold, rewritten(gold)) for gold in hard],
        "wrong, no whole numbers": list(zip(hard, hard[7:] + hard[:7], strict=True)),
    }
    for name, pairs in kinds.items():
        # Fresh processes and no verdict remembered; the second figure leaves out starting them.
        async with Graders(processes=2) as graders:
            first, _ = await rate(graders, pairs[:2])
            warm, verdicts = await rate(graders, pairs[2:])
        seconds = 2 / first + (len(pairs) - 2) / warm
        right = sum(verdict.outcome == "right" for verdict in verdicts)
        rates = f"{len(pairs) / seconds:.0f} a second with the start, {warm:.0f} without"
        print(f"{name}: {rates}; {right} of {len(verdicts)} right")


if __name__ == "__main__":
    asyncio.run(main())
