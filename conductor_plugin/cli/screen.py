"""What a person sees: live progress on stderr while steps run, then the answer and its receipt on stdout."""

import asyncio
import contextlib
import json
import re
import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from conductor_plugin.conduct import Answered
from conductor_plugin.quote import Quote, quote_lines
from conductor_plugin.receipt import Answer, StepRecord
from conductor_plugin.rounds import PlanReady, PlanRefused
from conductor_plugin.run import StepFinished, StepStarted

# Control characters, and those that turn the direction of what follows.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Screen:
    """Hears the events of a run. On a terminal: one live line a step; elsewhere plain lines."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.answer: Answer | None = None
        self._live = Live(console=self.console, refresh_per_second=8, transient=False)
        self._lines: dict[int, Any] = {}
        self._started: dict[int, float] = {}

    def __enter__(self) -> "Screen":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.console.is_terminal:
            with contextlib.suppress(Exception):
                self._live.stop()

    def say(self, text: str) -> None:
        """One plain line above the steps."""
        self.console.print(Text(plain(text), style="dim"))

    async def ask(self, ready: PlanReady, offer: Quote) -> bool:
        """Show the plan and its quote, and read a line from stdin: is it to be run?"""
        if self.console.is_terminal:
            self._live.stop()
        lists = [
            f"{i}. Model {worker}: {text}"
            for i, (worker, text) in enumerate(zip(ready.plan.model_id, ready.plan.subtasks, strict=True))
        ]
        self.console.print(Text(plain("\n".join([*lists, "", *quote_lines(offer)]))))
        self.console.print("Run this plan? [y/N] ", end="", markup=False)
        line = await _line_of_stdin()
        if self.console.is_terminal:
            self._live.start()
        return line.strip().lower() in ("y", "yes")

    def hear(self, event: object) -> None:
        """Take in an event of `conductor_plugin.rounds`, `run` or `conduct`; others are ignored."""
        if isinstance(event, PlanReady):
            self._lines.clear()
            steps = len(event.steps)
            self.say(f"plan: {steps} step{'' if steps == 1 else 's'}" if steps else "plan: keep the answer")
        elif isinstance(event, PlanRefused):
            self.say(f"no valid plan: {event.error}")
        elif isinstance(event, StepStarted):
            self._started[event.index] = time.monotonic()
            self._show(event.index, f"step {event.index} · {event.worker}", running=True)
        elif isinstance(event, StepFinished) and event.record.kind != "conductor":
            self._show(event.record.index, _line(event.record), running=False)
        elif isinstance(event, Answered):
            self.answer = event.answer

    def _show(self, index: int, text: str, *, running: bool) -> None:
        text = plain(text)
        if not self.console.is_terminal:
            self.console.print(Text(f"{text} started" if running else text))
            return
        self._lines[index] = Spinner("dots", text=Text(text)) if running else Text(text)
        grid = Table.grid()
        for i in sorted(self._lines):
            grid.add_row(self._lines[i])
        self._live.update(grid)


async def _line_of_stdin() -> str:
    """Without a thread that waits for it: such a one would outlive Ctrl-C."""
    if sys.stdin is None:
        return ""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(sys.stdin, ready.set)
    except OSError:  # a regular file: always readable
        return sys.stdin.readline()
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline()


def print_answer(answer: Answer) -> None:
    """The receipt as a table, then the answer, last and unadorned, on stdout."""
    console = Console(highlight=False, soft_wrap=True)
    for number, record in enumerate(answer.rounds):
        table = Table(box=None, pad_edge=False, title=f"round {number}" if len(answer.rounds) > 1 else None)
        for column in ("step", "worker", "sees", "status", "tries", "in", "out", "USD", "seconds"):
            table.add_column(
                column, justify="left" if column in ("worker", "sees", "status") else "right", no_wrap=True
            )
        for step in record.steps:
            table.add_row(*map(Text, _cells(step)))
        console.print(table)
    usage = answer.usage
    console.print(
        Text(
            f"\n{answer.status} · planner {plain(answer.planner.name)} · {usage.calls} calls · "
            f"{_known(usage.prompt_tokens)} + {_known(usage.completion_tokens)} tokens · USD {_usd(usage.cost_usd)} · "
            f"{answer.elapsed_s:.2f} s (critical path {answer.critical_path_s:.2f} s)",
            style="dim",
        )
    )
    if answer.flow_run_id:
        console.print(Text(f"flow run {answer.flow_run_id} (conductor show {answer.flow_run_id})", style="dim"))
    if answer.error:
        print(f"conductor: {plain(answer.error.message)}", file=sys.stderr)
    if answer.answer is not None:
        print(f"\n{plain(answer.answer)}")


def as_json(value: object) -> str:
    """One line of JSON in which control characters are escaped, also those that JSON allows."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def plain(text: str) -> str:
    """Text without control characters: a worker's output must not drive the terminal."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def _line(record: StepRecord) -> str:
    mark = {"completed": "✓", "failed": "✗"}.get(record.status, "-")
    seconds = "" if record.latency_s is None else f" in {record.latency_s:.2f} s"
    tries = f", {record.attempts} attempts" if record.attempts > 1 else ""
    return f"{mark} step {record.index} · {record.worker} {record.status}{seconds}{tries}"


def _cells(step: StepRecord) -> list[str]:
    return [
        str(step.index),
        plain(step.worker) + (f" (for {plain(step.fallback_from)})" if step.fallback_from else ""),
        ", ".join(str(i) for i in step.sees) or "-",
        "pruned" if step.pruned else step.status,
        str(step.attempts),
        _known(step.prompt_tokens),
        _known(step.completion_tokens),
        _usd(step.cost_usd),
        "-" if step.latency_s is None else f"{step.latency_s:.2f}",
    ]


def _known(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _usd(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:.4f}"
