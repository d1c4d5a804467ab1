"""The table of the proof on two cores, from rows made by hand."""

import pytest

pytest.importorskip("numpy")

from conductor_plugin.evaluation.rows import Row
from training.compared import LEARNED
from training.tables import ORACLE, best, gaps, in_markdown, shapes, table, worst

SINGLE, CHAINED, UNSEEN = "two-cores:gcd", "two-cores:gcd-then-products", "two-cores:lcm"


def row(system, benchmark, number, right, **fields):
    return Row(
        system=system,
        benchmark=benchmark,
        question=f"{benchmark}/{number}",
        repeat=fields.pop("repeat", 0),
        outcome="right" if right else "wrong",
        **fields,
    )


ROWS = [
    *(row("single:a", SINGLE, i, right=i == 0, calls=1) for i in range(4)),
    *(row("single:b", SINGLE, i, right=i in (0, 1), calls=1) for i in range(4)),
    *(row("single:a", CHAINED, i, right=False, calls=1) for i in range(4)),
    *(row("single:b", CHAINED, i, right=False, calls=1) for i in range(4)),
    *(row("single:a", UNSEEN, i, right=False, calls=1) for i in range(2)),
    *(row("single:b", UNSEEN, i, right=False, calls=1) for i in range(2)),
    *(row(LEARNED, SINGLE, i, right=True, calls=1, steps=1, workers=("b",), topology="one step") for i in range(4)),
    *(row(LEARNED, CHAINED, i, right=i < 3, calls=2, steps=2, workers=("b", "a"), topology="chain") for i in range(4)),
    *(row(LEARNED, UNSEEN, i, right=i == 0, calls=1, steps=1, workers=("b",), topology="one step") for i in range(2)),
    row("moa:01+0", SINGLE, 0, right=False),
    row("moa:10+0", SINGLE, 0, right=True),
]


def line(system):
    return next(one for one in table(ROWS) if one.system == system)


def test_a_line_has_the_accuracies_of_the_parts_and_what_a_question_takes():
    learned = line(LEARNED)
    assert (learned.single, learned.chained, learned.trained, learned.unseen) == (1.0, 0.75, 7 / 8, 0.5)
    assert learned.calls == pytest.approx((4 + 8 + 2) / 10)


def test_the_oracle_is_right_where_a_single_worker_is():
    oracle = line(ORACLE)
    assert (oracle.single, oracle.chained, oracle.trained) == (0.5, 0.0, 0.25)


def test_gaps_are_paired_and_by_part():
    over_oracle = {gap.on: gap for gap in gaps(ROWS, [ORACLE, "single:a"]) if gap.over == ORACLE}
    assert over_oracle["trained"].mean == pytest.approx(7 / 8 - 2 / 8)
    assert over_oracle["unseen"].mean == pytest.approx(0.5)
    assert over_oracle["trained"].low <= over_oracle["trained"].mean <= over_oracle["trained"].high


def test_shapes_name_the_commonest_plan_of_each_family():
    by_family = {shape.family: shape for shape in shapes(ROWS)}
    chained = by_family["gcd-then-products"]
    assert (chained.steps, chained.commonest, chained.share, chained.accuracy) == (2.0, "b a (chain)", 1.0, 0.75)


def test_the_best_and_the_worst_of_a_kind():
    lines = table(ROWS)
    assert (best(lines, "moa:").system, worst(lines, "moa:").system) == ("moa:10+0", "moa:01+0")
    assert len(in_markdown(lines).splitlines()) == 2 + len(lines)
