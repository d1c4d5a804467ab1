"""A table once, written as Markdown, HTML and CSV."""

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """A titled table; numbers are shown with `digits` after the point, None as an empty cell."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    digits: int = 3


def markdown(table: Table) -> str:
    """With its title as a heading of the second level."""
    grid = markdown_grid(table.header, table.rows, table.digits)
    return "\n".join([f"## {table.title}", "", grid, *(["", table.note] if table.note else [])]) + "\n"


def markdown_grid(header: Sequence[str], rows: Sequence[Sequence[Cell]], digits: int = 3) -> str:
    """A table without a title."""
    lines = [_line(header), _line(["---"] * len(header))]
    return "\n".join(lines + [_line([_markdown_text(shown(cell, digits)) for cell in row]) for row in rows])


def as_html(table: Table) -> str:
    """A section with its heading."""
    header = "".join(f"<th>{html.escape(name)}</th>" for name in table.header)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(shown(cell, table.digits))}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    note = f"<p>{html.escape(table.note)}</p>" if table.note else ""
    return f"<h2>{html.escape(table.title)}</h2>\n<table>\n<tr>{header}</tr>\n{rows}\n</table>\n{note}"


def as_csv(table: Table) -> str:
    """With full precision; None is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)
    return out.getvalue()


def shown(cell: Cell, digits: int = 3) -> str:
    """A cell for people."""
    if cell is None:
        return ""
    return f"{cell:.{digits}f}" if isinstance(cell, float) else str(cell)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_text(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
