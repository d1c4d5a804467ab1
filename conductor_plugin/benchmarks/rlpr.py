"""RLPR: general reasoning questions with short answers (choices, quantities, words) from several sets."""

import re
from typing import Any

from conductor_plugin.benchmarks.question import GraderName, Question
from conductor_plugin.benchmarks.reader import BOXED, LETTER, LETTERS, TEXT, Benchmark, Hub, Row, digest, with_rule

# RLPR-Evaluation also has MATH500 and GPQA-Diamond, which are benchmarks of their own here.
ELSEWHERE = ("math-500", "math500", "gpqa")
RULES: dict[GraderName, str] = {
    "math": BOXED,
    "choice": LETTER,
    "text": 'Give the answer alone on the last line, as "Answer: …".',
}
OPTION = re.compile(r"^\s*\(?([A-J])[.):]\s*(\S.*?)\s*$", re.MULTILINE)


def identify(row: Row) -> str | None:
    source = row.text("data_source")
    if source.casefold().startswith(ELSEWHERE):
        return None
    return f"{source}/{digest(_asked(row))}"


def build(row: Row, id: str, seed: int) -> Question:
    asked, gold = _asked(row), _gold(row)
    options = _options(asked)
    grader = _grader(gold, options)
    rule = RULES[grader]
    return Question(
        id=id,
        benchmark="rlpr",
        text=with_rule(asked, rule),
        gold=gold,
        grader=grader,
        format_rule=rule,
        options=options if grader == "choice" else (),
        subject=row.text("data_source"),
    )


def _asked(row: Row) -> str:
    """What the last user message says; a system message has a rule for a form of answer that is not ours."""
    for message in reversed(row["prompt"]):
        if isinstance(message, dict) and message.get("role") == "user" and isinstance(message.get("content"), str):
            return str(message["content"]).strip()
    raise row.bad("the field 'prompt' is a list of messages, one of them the user's, each with role and content")


def _gold(row: Row) -> str:
    gold: Any = row["reward_model"].get("ground_truth")
    if not isinstance(gold, str | int | float) or isinstance(gold, bool) or not str(gold).strip():
        raise row.bad("the field 'reward_model' needs a ground_truth that is a text")
    return str(gold).strip()


def _options(asked: str) -> tuple[str, ...]:
    """The options that the question lists as A, B, … without a gap; it shows them already."""
    found: dict[str, str] = dict(OPTION.findall(asked))
    letters = LETTERS[: len(found)]
    return tuple(found[letter] for letter in letters) if set(found) == set(letters) else ()


def _grader(gold: str, options: tuple[str, ...]) -> GraderName:
    if len(options) > 1 and gold in set(LETTERS[: len(options)]):
        return "choice"
    return "math" if re.search(r"[\d\\=^]", gold) else "text"


def _set(hub: Hub) -> Benchmark:
    return Benchmark(
        fields={"data_source": TEXT, "prompt": (list,), "reward_model": (dict,)},
        identify=identify,
        build=build,
        hub=hub,
        repeats="drop",  # some of its sets overlap
    )


RLPR = _set(
    Hub(
        repo="openbmb/RLPR-Evaluation",
        revision="cd6b36bbecba006a8d25fedf634567ea37f9a512",
        files=(
            "MMLUPro-1000_Avg2.parquet",
            "WebInstruct-verified-val_Avg2.parquet",
            "Minerva_Avg4.parquet",
            "TheoremQA_Avg2.parquet",
            "AIME2024_Avg16.parquet",
        ),
    )
)
