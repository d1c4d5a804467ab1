"""The main job as the README gives it: `make answer`, in the core environment, and twenty unlike questions."""

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


def test_twenty_unlike_questions(prefect_sqlite, tmp_path):
    """The command behind `make answer`, each question in a process of its own, on one server to save its start."""

    def ask(item):
        i, (question, _) = item
        command = [BIN / "conductor", "answer", question, "--exclude", "local", "--json"]
        if BIN == CORE:
            del command[3:5]  # there is no local worker in the core environment
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            env=environment(tmp_path / str(i), PREFECT_API_URL=prefect_sqlite),
        )

    with ThreadPoolExecutor(2) as threads:
        runs = list(threads.map(ask, enumerate(QUESTIONS)))
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
        ["make", "--no-print-directory", "answer", f"Q={question}"],
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
