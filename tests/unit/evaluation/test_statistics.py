"""The numbers of a report, against what can be worked out by hand."""

import csv
import io
import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.evaluation.advice import advice
from conductor_plugin.evaluation.reference import METHODS, UNCONSTRAINED, reference_tables
from conductor_plugin.evaluation.report import grouped, report_tables, write_report
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.statistics import accuracy, by_position, ceiling, difference, marks, parse_rate
from conductor_plugin.evaluation.tables import Table, as_csv, as_html, markdown


def row(system="s", question="q0", repeat=0, outcome="right", **fields):
    return Row(system=system, benchmark="b", question=question, repeat=repeat, outcome=outcome, **fields)


def test_accuracy_and_its_two_errors():
    rows = [
        row(question=q, repeat=r, outcome=o)
        for q, r, o in [
            ("q0", 0, "right"),
            ("q0", 1, "right"),
            ("q1", 0, "wrong"),
            ("q1", 1, "right"),
            ("q2", 0, "unparsed"),
            ("q2", 1, "no_plan"),
        ]
    ]
    found = accuracy(marks(rows))
    assert found.mean == pytest.approx(0.5)
    assert found.over_repeats == pytest.approx((2 / 3 - 1 / 3) / math.sqrt(2) / math.sqrt(2))
    assert found.by_question == pytest.approx(0.5 / math.sqrt(3))
    assert found.questions == 3


def test_failed_rows_are_no_evidence():
    rows = [row(outcome="failed"), row(question="q1"), row(question="q1", repeat=1, outcome="failed")]
    assert marks(rows) == {"q1": {0: 1.0}}
    assert accuracy(marks([row(outcome="failed")])) is None


def test_one_repeat_has_no_error_over_repeats():
    assert accuracy(marks([row(), row(question="q1")])).over_repeats is None


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40))
def test_a_paired_difference(pairs):
    ours = {f"q{i}": {0: float(a)} for i, (a, _) in enumerate(pairs)}
    theirs = {f"q{i}": {0: float(b)} for i, (_, b) in enumerate(pairs)}
    gap = difference(ours, theirs)
    assert gap.mean == pytest.approx(sum(a - b for a, b in pairs) / len(pairs))
    assert gap.low - 1e-9 <= gap.mean <= gap.high + 1e-9
    assert difference(ours, ours).high == 0
    mirrored = difference(theirs, ours)
    assert mirrored.mean == pytest.approx(-gap.mean)


def test_the_interval_covers_as_often_as_it_says():
    """Of 200 planted worlds, the 95 % interval holds the true difference in about 95 %."""
    rng, held = random.Random(5), 0
    for _ in range(200):
        ours = {str(i): {0: float(rng.random() < 0.7)} for i in range(80)}
        theirs = {str(i): {0: float(rng.random() < 0.5)} for i in range(80)}
        gap = difference(ours, theirs)
        held += gap.low <= 0.2 <= gap.high
    assert 175 <= held <= 199


def test_the_ceiling_is_the_luckiest_worker_of_each_question():
    a, b = {"q0": {0: 1.0}, "q1": {0: 0.0}}, {"q0": {0: 0.0}, "q1": {0: 1.0}}
    assert (ceiling([a]), ceiling([a, b]), ceiling([])) == (0.5, 1.0, None)


def test_parse_rate_and_positions():
    rows = [
        row(planner_valid=1, planner_attempts=3, workers=("a", "b")),
        row(planner_valid=1, planner_attempts=1, workers=("a",)),
    ]
    assert parse_rate(rows) == 0.5
    assert parse_rate([row()]) is None
    assert by_position(rows) == [{"a": 1.0}, {"b": 1.0}]


def test_the_papers_averages_are_recomputed():
    singles, methods = reference_tables()
    assert all(line[-1] == pytest.approx(sum(line[1:-1]) / 7) for line in singles.rows)
    assert singles.rows[3][-1] == pytest.approx(54.49, abs=1.0)
    assert {line[0] for line in singles.rows} == set(UNCONSTRAINED)
    assert {line[0] for line in methods.rows} == set(METHODS)
    assert "paper" in singles.title
    assert "not measured here" in methods.note


HOSTILE = '<script>alert(1)</script> | "x", [y](http://evil)\n# head'


def test_a_cell_stays_a_cell():
    table = Table("t", ("a", "b"), [(HOSTILE, 0.123456), (None, 3)])
    assert markdown(table).count("\n| ") == 4
    assert "<script>" not in markdown(table) + as_html(table)
    assert list(csv.reader(io.StringIO(as_csv(table))))[1] == [HOSTILE, "0.123456"]


def world():
    """Two single workers, one system that is right wherever one of them is, and one that never is."""
    rng, rows = random.Random(1), []
    for i in range(120):
        first, second = rng.random() < 0.6, rng.random() < 0.4
        said = {"single:a": first, "single:b": second, "router": first or second, "noise": False}
        for system, right in said.items():
            cost = 0.0 if system == "noise" else 0.002 if system == "router" else 0.001
            rows.append(
                row(
                    system,
                    f"q{i}",
                    outcome="right" if right else "wrong",
                    cost_usd=cost,
                    calls=1,
                    steps=1,
                    workers=("a",),
                    level=str(i % 3),
                )
            )
    return rows


def test_advice_says_what_won_by_how_much_and_at_what_price():
    won, most = advice(grouped(world()))
    assert won.startswith("b: router, the best of the others, beats a alone (+")
    assert won.endswith("for 2.0 times the money.")
    assert "no choice of one worker" in most
    lost = advice(grouped([r for r in world() if r.system != "router"]))[0]
    assert "noise, the best of the others, is worse than a alone" in lost
    assert "nothing says" in advice(grouped([r for r in world() if r.system == "router"]))[0]


def test_the_report_holds_every_table(tmp_path):
    written = write_report(world(), tmp_path, title="T")
    report = (tmp_path / "report.md").read_text()
    for heading in (
        "accuracy",
        "what a question takes",
        "shapes",
        "accuracy by level",
        "steps by level",
        "by step position",
        "paper",
    ):
        assert re_search(heading, report), heading
    assert all(path.stat().st_size > 0 for path in written)
    assert len([path for path in written if path.suffix == ".csv"]) == len(report_tables(world()))
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 480
    assert Row.model_validate(json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[0])) == world()[0]
    assert (tmp_path / "b-cost.png").read_bytes().startswith(b"\x89PNG")


def re_search(heading, report):
    return any(line.startswith("## ") and heading in line for line in report.splitlines())
