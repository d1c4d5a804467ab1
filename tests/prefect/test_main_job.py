"""The main job as the README gives it: `make answer`, in the core environment; what the Conductor that comes with the
package plans and what it does not; and twenty unlike questions for the template."""

import itertools
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / ".venv" / "bin"
BIN = CORE if (CORE / "conductor").exists() else Path(sys.executable).parent
REFUSAL = "I cannot do this."

pytestmark = pytest.mark.prefect

# Each with its one right answer; what the core's tools cannot do is refused by name, never guessed.
QUESTIONS = [
    ("What is 17 * 23 + 4?", "395"),
    ("What is 15% of 80?", "12"),
    ("What is 1/3 + 1/6?", "1/2"),
    ("Solve x^2 - 5x + 6 = 0", "x = 2 or x = 3"),
    ("Simplify (x^2 - 1)/(x - 1)", "x + 1"),
    ("What is 2^100?", "1267650600228229401496703205376"),
    ("What is the greatest common divisor of 462 and 1071?", "21"),
    ("Is 7919 a prime number?", "yes"),
    ("Factorise 1001", "7 * 11 * 13"),
    ("Convert 255 to hexadecimal", "ff"),
    ("How many 1 bits are in the binary representation of 255?", "8"),
    ("Reverse the string 'conductor'", "rotcudnoc"),
    ("How many times does the letter r appear in 'strawberry'?", "3"),
    ("Sort these words alphabetically: pear, apple, fig", "apple, fig, pear"),
    ("Convert 'hello world' to upper case", "HELLO WORLD"),
    ("What is the capital of France?", REFUSAL),
    ("What is the GDP of France plus 1?", REFUSAL),
    ("In 1999 Tom had 3 apples and bought 4. Who ate them?", REFUSAL),
    ("Écris un poème sur la mer. 🌊", REFUSAL),
    ("What is 9^(9^(9^9))?", REFUSAL),
]


def environment(home, **more):
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")},
        "PREFECT_HOME": str(home),
        **more,
    }


# Those that training had or might have had, and in chains; then those that it had not.
PLANNED = [
    ("What is the greatest common divisor of 462 and 1071?", "21", ["number"]),
    ("Calculate 17 * 23 + 4.", "395", ["calculator"]),
    ('Reverse the word "conductor".', "rotcudnoc", ["text"]),
    ("Compute the gcd of 462 and 1071. Then multiply the result by 12.", "252", ["number", "calculator"]),
    (
        'How many "r" are in "strawberry fields forever"? Then find the least common multiple of the result and 14.',
        "70",
        ["text", "number"],
    ),
]
WAYS_ON = ("key", "local endpoint", "--planner template:first-answer")
OUTSIDE = ["What is the capital of France?", "Is 7919 a prime number?", "Écris un poème sur la mer. 🌊"]


@pytest.fixture
def ask(prefect_sqlite, tmp_path):
    """The command behind `make answer`, each question in a process of its own, on one server to save its start."""
    homes = itertools.count()

    def ask(question, *options):
        # There is no local worker in the core environment.
        without = [] if BIN == CORE else ["--exclude", "local"]
        return subprocess.run(
            [BIN / "conductor", "answer", question, *without, *options, "--json"],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment(tmp_path / str(next(homes)), PREFECT_API_URL=prefect_sqlite),
        )

    def ask_all(questions, *options):
        with ThreadPoolExecutor(2) as threads:
            return list(threads.map(lambda question: ask(question, *options), questions))

    return ask_all


def test_the_conductor_plans_what_it_learnt(ask):
    for (question, expected, workers), run in zip(PLANNED, ask([q for q, *_ in PLANNED]), strict=True):
        assert run.returncode == 0, (question, run.stderr)
        record = json.loads(run.stdout)
        assert (record["answer"], record["planner"]["name"]) == (expected, "conductor"), question
        assert [step["worker"] for step in record["rounds"][0]["steps"]] == workers, question


def test_the_conductor_says_what_it_did_not_learn(ask):
    for question, run in zip(OUTSIDE, ask(OUTSIDE), strict=True):
        record = json.loads(run.stdout)
        assert (run.returncode, record["error"]["code"], record["usage"]["calls"]) == (4, "question_outside", 0), (
            question
        )
        assert all(way in record["error"]["message"] for way in WAYS_ON)


def test_twenty_unlike_questions(ask):
    runs = ask([question for question, _ in QUESTIONS], "--planner", "template:first-answer")
    for (question, expected), run in zip(QUESTIONS, runs, strict=True):
        assert run.returncode == 0, (question, run.stderr)
        record = json.loads(run.stdout)
        assert record["status"] == "completed"
        assert record["answer"].lower() == expected.lower(), question


@pytest.mark.skipif(BIN != CORE, reason="make test sets up the core environment; there is none here")
def test_make_answer_without_a_server(tmp_path):
    """As typed by a newcomer: quotes and dollars arrive as they are, and Prefect starts by itself."""
    question = "Reverse the string 'a$5 `x` \"q\"'"
    run = subprocess.run(
        ["make", "--no-print-directory", "answer", f"Q={question}", "PLANNER=template:first-answer"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        env=environment(tmp_path / "home", HOME=str(tmp_path)),
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.rstrip().endswith('"q" `x` 5$a')
    assert "template:first-answer" in run.stdout
    shown = run.stdout.partition("conductor show ")[2].partition(")")[0]
    show = subprocess.run(
        [CORE / "conductor", "show", shown],
        capture_output=True,
        text=True,
        timeout=180,
        env=environment(tmp_path / "home", HOME=str(tmp_path)),
    )
    assert show.returncode == 0, show.stderr
    assert show.stdout.rstrip().endswith('"q" `x` 5$a')
