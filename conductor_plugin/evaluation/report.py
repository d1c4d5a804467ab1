"""The report of an evaluation: tables, advice and plots from its rows. The same rows give the same bytes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from conductor_plugin.evaluation.advice import advice
from conductor_plugin.evaluation.reference import reference_tables
from conductor_plugin.evaluation.references import References, reference_failures
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.evaluation.statistics import (
    SINGLE,
    Marks,
    accuracy,
    best_single,
    by_position,
    difference,
    judged_marks,
    marks,
    mean_of,
    means,
    parse_rate,
    per_usd,
    shares,
    single_ceiling,
)
from conductor_plugin.evaluation.tables import Cell, Table, as_csv, as_html, markdown

Groups = dict[str, dict[str, list[Row]]]


def grouped(rows: Iterable[Row]) -> Groups:
    """Rows by benchmark and system, in the order in which they come."""
    groups: Groups = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row.benchmark][row.system].append(row)
    return {benchmark: dict(systems) for benchmark, systems in groups.items()}


def report_tables(rows: Sequence[Row]) -> list[Table]:
    """All tables of the report, those of each benchmark first."""
    tables = []
    for benchmark, systems in grouped(rows).items():
        marked = {system: marks(found) for system, found in systems.items()}
        tables += [
            _accuracies(benchmark, systems, marked),
            _costs(benchmark, systems, marked),
            _shapes(benchmark, systems),
            *_levels(benchmark, systems),
            *_judged(benchmark, systems),
        ]
    return [*tables, *_workers(rows), *reference_tables()]


def _accuracies(benchmark: str, systems: dict[str, list[Row]], marked: Mapping[str, Marks]) -> Table:
    best = best_single(marked)
    lines: list[list[Cell]] = []
    for system, rows in systems.items():
        found = accuracy(marked[system])
        gap = difference(marked[system], marked[best]) if best and system != best else None
        interval = f"{gap.low:+.3f} to {gap.high:+.3f}" if gap else None
        counts = [sum(row.outcome == outcome for row in rows) for outcome in ("unparsed", "no_plan", "failed")]
        lines.append(
            [
                system,
                *((found.mean, found.over_repeats, found.by_question, found.questions) if found else (None,) * 4),
                gap.mean if gap else None,
                interval,
                parse_rate(rows),
                *counts,
            ]
        )
    lines.append(["oracle: the best worker of each question", single_ceiling(marked), *[None] * 9])
    header = ("system", "accuracy", "se over repeats", "se by question", "questions", "against best single")
    return Table(
        f"{benchmark}: accuracy",
        (*header, "95 % interval", "parse rate", "unparsed", "no plan", "failed"),
        lines,
        note=f"Best single worker: {best or 'none was run'}. Intervals: paired bootstrap over questions. Failed "
        "answers count neither as right nor as wrong; unparsed ones and those without a plan are wrong.",
    )


def _costs(benchmark: str, systems: dict[str, list[Row]], marked: Mapping[str, Marks]) -> Table:
    lines: list[list[Cell]] = []
    for system, rows in systems.items():
        mean, found = means(rows), accuracy(marked[system])
        right = per_usd(found.mean, mean.cost_usd) if found else None
        lines.append(
            [
                system,
                mean.calls,
                mean.steps,
                mean.prompt_tokens,
                mean.completion_tokens,
                mean.cost_usd,
                right,
                mean.wall_s,
                mean.calls_s,
                mean.critical_path_s,
            ]
        )
    header = ("system", "calls", "steps", "tokens in", "tokens out", "USD", "right answers for a USD")
    return Table(
        f"{benchmark}: what a question takes",
        (*header, "wall s", "calls s", "critical path s"),
        lines,
        note="Means per question; an empty cell is unknown. Wall time is beside all else that ran at the time.",
        digits=4,
    )


def _shapes(benchmark: str, systems: dict[str, list[Row]]) -> Table:
    shapes = ("one step", "parallel", "chain", "tree", "verify", "none")
    lines: list[list[Cell]] = []
    for system, rows in systems.items():
        share = shares(row.topology for row in rows)
        lines.append([system, *(share.get(shape, 0.0) for shape in shapes)])
    return Table(f"{benchmark}: shapes of the workflows, as shares", ("system", *shapes), lines)


def _levels(benchmark: str, systems: dict[str, list[Row]]) -> list[Table]:
    levels = sorted({row.level for rows in systems.values() for row in rows if row.level is not None})
    if len(levels) < 2:
        return []
    lines: dict[str, list[list[Cell]]] = {"accuracy": [], "steps": []}
    for system, rows in systems.items():
        by_level: dict[str | None, list[Row]] = defaultdict(list)
        for row in rows:
            by_level[row.level].append(row)
        chosen = [by_level[level] for level in levels]
        found = [accuracy(marks(some)) for some in chosen]
        lines["accuracy"].append([system, *(one.mean if one else None for one in found)])
        lines["steps"].append([system, *(mean_of(some, "steps") if some else None for some in chosen)])
    return [Table(f"{benchmark}: {what} by level", ("system", *levels), lines[what]) for what in lines]


def _judged(benchmark: str, systems: dict[str, list[Row]]) -> list[Table]:
    """The grader's rules and the worker as a judge, side by side on the answers that both judged."""
    lines: list[list[Cell]] = []
    for system, rows in systems.items():
        asked = [row for row in rows if row.judgement is not None]
        both = [row for row in asked if row.judgement in ("right", "wrong")]
        if asked:
            rule, judge = accuracy(marks(both)), accuracy(judged_marks(both))
            agree = sum((row.outcome == "right") == (row.judgement == "right") for row in both)
            counts = [sum(row.judgement == what for row in asked) for what in ("unclear", "failed")]
            found = (rule.mean, judge.mean, judge.by_question, agree / len(both)) if rule and judge else (None,) * 4
            lines.append([system, *found, len(both), *counts, mean_of(asked, "judge_usd")])
    header = (
        "system",
        "by rule",
        "by judge",
        "se by question",
        "agree",
        "answers",
        "unclear",
        "judge failed",
        "judge USD",
    )
    note = (
        "All other tables are by rule alone. Both accuracies are of the answers on which the judge said yes or no; its "
        "price is a mean per answer and in no other figure."
    )
    return [Table(f"{benchmark}: by rule and by a worker as judge", header, lines, note=note)] if lines else []


def _workers(rows: Sequence[Row]) -> list[Table]:
    lines: list[list[Cell]] = []
    names = sorted({worker for row in rows for worker in row.workers})
    systems: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        systems[row.system].append(row)
    for system, found in systems.items():
        if not system.startswith(SINGLE):
            for position, share in enumerate(by_position(found)):
                lines.append([system, position, *(share.get(name, 0.0) for name in names)])
    return (
        [Table("Which worker is asked, by step position, as shares", ("system", "step", *names), lines)]
        if lines
        else []
    )


def write_report(
    rows: Sequence[Row], folder: Path, *, title: str, references: Sequence[References] = (), plots: bool = True
) -> list[Path]:
    """Write `rows.jsonl`, `report.md`, `report.html`, a CSV file for each table, and the plots; what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = [*report_tables(rows), *reference_failures(references)]
    sentences = [*(found.sentence for found in references), *advice(grouped(rows))]
    files = {
        "rows.jsonl": "".join(f"{row.model_dump_json()}\n" for row in rows),
        "report.md": _document(title, sentences, tables),
        "report.html": _page(title, sentences, tables),
        **{f"table-{i:02}.csv": as_csv(table) for i, table in enumerate(tables)},
    }
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    written = [folder / name for name in files]
    if plots:
        from conductor_plugin.evaluation.plots import write_plots

        written += write_plots(grouped(rows), folder)
    return written


def _document(title: str, sentences: Sequence[str], tables: Sequence[Table]) -> str:
    lines = "\n".join(f"- {sentence}" for sentence in sentences)
    return "\n".join([f"# {title}\n", f"{lines}\n", *(markdown(table) for table in tables)])


def _page(title: str, sentences: Sequence[str], tables: Sequence[Table]) -> str:
    import html

    style = "body{font:15px sans-serif;margin:2em}table{border-collapse:collapse}td,th{border:1px solid #ccc}"
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{style}</style>'
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    body = "\n".join(as_html(table) for table in tables)
    return (
        f'<!doctype html>\n<html lang="en">{head}\n<h1>{html.escape(title)}</h1>\n<ul>{items}</ul>\n{body}\n</html>\n'
    )
