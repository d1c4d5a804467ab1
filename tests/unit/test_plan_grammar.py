"""The grammar that constrains a planner, in the engine that vLLM's backend `guidance` uses: the parser's own set."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer, grammar_from

from conductor_plugin.errors import PlanError
from conductor_plugin.plan import Plan, PlanRules, parse_plan, render_plan
from conductor_plugin.plan_grammar import plan_grammar
from conductor_plugin.plan_text import MAX_BYTES
from tests.unit.strategies import lists, plans

BYTES = LLTokenizer("byte")
END = 256  # of this tokenizer, whose other tokens are the bytes themselves
EVERY_RULE = [
    PlanRules(workers=workers, max_steps=steps, conductor=conductor, answered=answered)
    for workers, steps in ((1, 1), (4, 5), (12, 3))
    for conductor in (False, True)
    for answered in (False, True)
]
RULES = PlanRules(workers=4)


def matcher(rules: PlanRules, reasoning: int = 60, subtask: int = 1000) -> LLMatcher:
    grammar = plan_grammar(rules, reasoning=reasoning, subtask=subtask)
    engine = LLMatcher(BYTES, grammar_from("grammar", grammar), log_level=0)
    assert not engine.is_error(), engine.get_error()
    return engine


def accepts(engine: LLMatcher, text: str) -> bool:
    engine.reset()
    tokens = list(text.encode())
    return engine.validate_tokens(tokens) == len(tokens) and engine.consume_tokens(tokens) and engine.is_accepting()


ENGINES = {rules: matcher(rules) for rules in EVERY_RULE}
FREE = matcher(RULES, reasoning=5000)


def sampled(engine: LLMatcher, draws: random.Random) -> str:
    """A text that the engine lets a model write, byte by byte; what ends a list or a text is drawn more often."""
    engine.reset()
    written = bytearray()
    while not engine.is_stopped():
        mask = int.from_bytes(engine.compute_bitmask(), "little")
        allowed = [token for token in range(END + 1) if mask >> token & 1]
        ends = [token for token in allowed if token == END or token in b'"]\n']
        token = draws.choice(ends if ends and draws.random() < 0.3 else allowed)
        assert engine.consume_token(token)
        if token != END:
            written.append(token)
    return written.decode()


@given(rules=st.sampled_from(EVERY_RULE), draws=st.randoms(use_true_random=False))
def test_what_it_lets_a_model_write_is_a_plan(rules: PlanRules, draws: random.Random) -> None:
    plan = parse_plan(sampled(ENGINES[rules], draws), rules)
    assert all(len(text) < 2000 for text in plan.subtasks)


def ordered(plan: Plan, reasoning: str = "") -> Plan:
    """The plan in canonical form: access lists in step order, and this reasoning."""
    entries = tuple(access if access == "all" else tuple(sorted(access)) for access in plan.access_list)
    return plan.model_copy(update={"access_list": entries, "reasoning": reasoning})


THOUGHTS = st.text(st.characters(codec="utf-8", exclude_characters="<["), max_size=50)


@given(plan=plans(), thought=THOUGHTS)
def test_every_plan_in_canonical_form_is_accepted(plan: Plan, thought: str) -> None:
    reasoned = ordered(plan, Plan(model_id=(), subtasks=(), access_list=(), reasoning=thought).reasoning)
    assert accepts(FREE, render_plan(reasoned))
    assert accepts(FREE, f"{thought}\n{render_plan(ordered(plan))}")


def hand_back(plan: Plan, workers: int) -> Plan:
    return plan.model_copy(update={"model_id": (*plan.model_id[:-1], workers)})


@given(plan=plans(steps=(1, 5)))
def test_the_conductor_is_only_the_last_step_and_only_where_an_answer_is(plan: Plan) -> None:
    ended = render_plan(ordered(hand_back(plan, 4)))
    for rules in (rules for rules in EVERY_RULE if rules.workers == 4):
        assert accepts(ENGINES[rules], ended) == (rules.conductor and (len(plan) > 1 or rules.answered))
    if len(plan) > 1:
        first = plan.model_copy(update={"model_id": (4, *plan.model_id[1:])})
        assert not accepts(ENGINES[PlanRules(workers=4, conductor=True)], render_plan(ordered(first)))


@pytest.mark.parametrize("answered", [False, True])
def test_three_empty_lists_keep_an_earlier_answer(answered: bool) -> None:
    rules = PlanRules(workers=4, answered=answered)
    assert accepts(ENGINES[rules], lists("[]", "[]", "[]").strip()) == answered


def broken(plan: Plan, draws: random.Random) -> dict[str, str]:
    """Near misses of a plan, each with one fault."""
    step = draws.randrange(len(plan))
    parts = render_plan(ordered(plan)).split("\n")
    ids, texts, access = (part.split(" = ", 1)[1] for part in parts)
    views = ["[]"] * len(plan)

    def at(entry: str) -> str:
        return f"[{', '.join([*views[:step], entry, *views[step + 1 :]])}]"

    def id_at(number: object) -> str:
        return str([*plan.model_id[:step], number, *plan.model_id[step + 1 :]])

    texts_of_six, ids_of_six = '["", "", "", "", "", ""]', "[0, 0, 0, 0, 0, 0]"
    cases = {
        "id out of range": (id_at(4 + draws.randrange(20)), texts, access),
        "negative id": (id_at(-1), texts, access),
        "bool id": (id_at(True), texts, access),
        "sees itself": (ids, texts, at(f"[{step}]")),
        "sees a later step": (ids, texts, at(f"[{step + 1 + draws.randrange(5)}]")),
        "another word": (ids, texts, at('"none"')),
        "one id more": (ids[:-1] + ", 0]", texts, access),
        "one text more": (ids, texts[:-1] + ', ""]', access),
        "one view more": (ids, texts, access[:-1] + ", []]"),
        "six steps": (ids_of_six, texts_of_six, "[[], [], [], [], [], []]"),
        "no steps": ("[]", "[]", "[]"),
        "surrogate": (ids, texts[:-2] + '\\ud800"]', access),
    }
    if step:
        cases["a step twice"] = (ids, texts, at(str([draws.randrange(step)] * 2)))
    return {name: lists(*case).strip() for name, case in cases.items()}


@given(plan=plans(), draws=st.randoms(use_true_random=False))
def test_near_misses_are_refused_as_the_parser_refuses_them(plan: Plan, draws: random.Random) -> None:
    for name, text in broken(plan, draws).items():
        with pytest.raises(PlanError):
            parse_plan(text, RULES)
        assert not accepts(FREE, text), name


LISTS = lists().strip()


@pytest.mark.parametrize(
    ("reasoning", "accepted"),
    [
        ("Step 1 sees [0] and steps, [1, 2]; x < y.\n", True),
        ("<think>\nx\n</think>\n\n", True),
        ("x\n</think>\n\n", True),  # the opening tag stood in the prompt
        ("```python\n", True),
        ("model_id: first\n", True),
        ("model_id = [0]\n", False),
        ("models:[0]\n", False),
        ("subtasks = \n[\n", False),
        ("<think>\nx\n", False),
        ("x</think>y\n</think>\n\n", False),
        ("my ", False),
    ],
)
def test_reasoning_starts_no_list_and_ends_its_tag(reasoning: str, accepted: bool) -> None:
    assert accepts(FREE, reasoning + LISTS) is accepted
    assert not accepts(matcher(RULES, reasoning=0), reasoning + LISTS)


def test_lengths_are_bounded() -> None:
    engine = matcher(RULES, reasoning=10, subtask=5)
    for text, accepted in (("é" * 5, True), ("é" * 6, False), (r"\n" * 5, True), (r"\n" * 6, False)):
        assert accepts(engine, lists(subtasks=f'["{text}"]').strip()) is accepted
    assert accepts(engine, "é" * 10 + "\n" + LISTS)
    assert not accepts(engine, "é" * 11 + "\n" + LISTS)


@pytest.mark.parametrize(("workers", "steps"), [(4, 5), (4, 40), (1000, 60)])
def test_the_longest_plans_are_not_too_long_for_the_parser(workers: int, steps: int) -> None:
    rules = PlanRules(workers=workers, max_steps=steps)
    grammar = plan_grammar(rules, reasoning=0, subtask=10**6)
    pieces = int(grammar.split('text ::= "\\"" piece{0,')[1].split("}")[0])
    text = r"<\U0010ffff" * pieces + "<"
    seen: Any = [list(range(i)) for i in range(steps)]
    longest = lists(str([workers - 1] * steps), "[" + ", ".join([f'"{text}"'] * steps) + "]", str(seen)).strip()
    assert len(longest) > MAX_BYTES * 0.75  # the bound is no smaller than it must be
    assert len(parse_plan(longest, rules)) == steps
    assert accepts(matcher(rules, reasoning=0, subtask=10**6), longest)
