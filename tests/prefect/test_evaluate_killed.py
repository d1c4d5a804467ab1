"""`conductor evaluate`, killed at random moments and started again: nothing that was stored is paid for twice.

CONDUCTOR_TEST_KILLS=50 python -m pytest tests/prefect/test_evaluate_killed.py -s     (more kills than the usual two)
"""

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from conductor_plugin.evaluation.report import write_report
from conductor_plugin.evaluation.rows import Row
from conductor_plugin.plan import Plan, render_plan
from tests.upstream import Delay, Text, Upstream, echo

KILLS = int(os.environ.get("CONDUCTOR_TEST_KILLS", "2"))
pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300 + 90 * KILLS)]

CONCURRENCY, QUESTIONS = 6, 8
PLAN = Plan(model_id=(0, 1), subtasks=("", "Check it."), access_list=((), (0,)))
SYSTEMS = ("single:a", "single:b", "moa", "planner")
CALLS = QUESTIONS * 5  # of each question: two workers, who merges, the plan, who checks
UNTIMED = {"wall_s": 0.0, "calls_s": 0.0, "critical_path_s": 0.0}


@pytest.fixture
def upstream():
    delays = random.Random(1)

    def reply(body):
        said = render_plan(PLAN) if body["model"] == "planner" else echo(body)
        return Delay(delays.uniform(0.1, 0.5), Text(said))

    with Upstream(reply) as server:
        yield server


@dataclass(frozen=True)
class Evaluation:
    """One evaluation with a store of its own."""

    folder: Path
    seed: int
    api_url: str
    upstream: Upstream

    def start(self):
        self.folder.mkdir(exist_ok=True)
        priced = {"price": {"input": 1.0, "output": 1.0}, "params": {"max_tokens": 100}}
        llm = {"api_base": self.upstream.base_url, **priced}
        workers = [{"name": name, "kind": "llm", "model": f"openai/{name}", "retries": 0, **llm} for name in "ab"]
        planner = {"kind": "prompted", "model": "openai/planner", **llm}
        (self.folder / "pool.yaml").write_text(json.dumps({"workers": workers, "planner": planner}))
        command = [Path(sys.executable).parent / "conductor", "evaluate", "--benchmark", "rg:gcd"]
        command += ["--limit", QUESTIONS, "--seed", self.seed, "--pool", self.folder / "pool.yaml"]
        command += ["--store", f"sqlite:///{self.folder / 'store.sqlite'}", "--out", self.folder / "report"]
        command += ["--concurrency", CONCURRENCY, "--budget-usd", 100]
        for system in SYSTEMS:
            command += ["--system", system]
        environment = {**os.environ, "PREFECT_API_URL": self.api_url}
        return subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.DEVNULL, stderr=sys.stderr)

    def finish(self):
        assert self.start().wait() == 0

    def stored(self):
        """How many calls the store has the answers of."""
        path = self.folder / "store.sqlite"
        if not path.exists():
            return 0
        with sqlite3.connect(path) as database:
            names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            count = "SELECT count(*) FROM conductor_records WHERE kind IN ('sample', 'plan')"
            return database.execute(count).fetchone()[0] if "conductor_records" in names else 0

    def untimed(self):
        """The report without its seconds, which no two runs share."""
        lines = (self.folder / "report" / "rows.jsonl").read_text().splitlines()
        rows = [Row.model_validate_json(line).model_copy(update=UNTIMED) for line in lines]
        write_report(rows, self.folder / "untimed", title="Untimed", plots=False)
        return {path.name: path.read_text() for path in (self.folder / "untimed").iterdir()}


def test_killed_at_random_moments(prefect_sqlite, upstream, tmp_path):
    began, kills, lost = time.monotonic(), 0, 0
    for seed in range(KILLS):
        if kills >= KILLS:
            break
        killed = Evaluation(tmp_path / f"killed-{seed}", seed, prefect_sqlite, upstream)
        upstream.clear()
        cut_off = kill_it(killed, min(3, KILLS - kills))
        # What a kill found without a stored answer is asked once more, and nothing else is.
        assert len(upstream.requests) == CALLS + sum(cut_off)
        assert all(count <= CONCURRENCY for count in cut_off)
        kills, lost = kills + len(cut_off), lost + sum(cut_off)
        undisturbed = Evaluation(tmp_path / f"undisturbed-{seed}", seed, prefect_sqlite, upstream)
        undisturbed.finish()
        assert killed.untimed() == undisturbed.untimed()
        assert len(upstream.requests) == 2 * CALLS + sum(cut_off)
    assert kills >= KILLS
    print(f"\n{kills} kills in {time.monotonic() - began:.0f} s; {lost} calls were cut off and made again, no others")


def kill_it(evaluation, most):
    """Kill so many starts, then let one finish; how many calls each kill cut off before their answers were stored."""
    chance, cut_off, upstream = random.Random(evaluation.seed), [], evaluation.upstream
    while len(cut_off) < most:
        before, stored = len(upstream.requests), evaluation.stored()
        process = evaluation.start()
        calls = before + chance.randint(1, CALLS // (most + 1))
        while process.poll() is None and len(upstream.requests) < calls:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.4))
        assert process.poll() is None, "it was over before it could be killed"
        process.kill()
        process.wait()
        time.sleep(0.2)  # what it had sent arrives
        cut_off.append(len(upstream.requests) - before - (evaluation.stored() - stored))
    evaluation.finish()
    assert len({json.dumps(request.body, sort_keys=True) for request in upstream.requests}) == CALLS
    return cut_off
