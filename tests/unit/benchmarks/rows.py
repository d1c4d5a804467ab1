"""Made-up rows in each set's real format, and files of them. None of them is a question of a benchmark."""

import base64
import csv
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

MATH500 = {
    "problem": "What is $1+1$?",
    "solution": "It is $\\boxed{2}$.",
    "answer": "2",
    "subject": "Prealgebra",
    "level": 1,
    "unique_id": "test/prealgebra/1.json",
}
AIME25 = {"problem": "Find the number of fingers on a hand.", "answer": "5", "id": "0"}
MMLU = {
    "question": "Which of these is a colour?",
    "subject": "made_up",
    "choices": ["red", "seven", "A and B", "none of the above"],
    "answer": 0,
}
GPQA = {
    "Question": "Which unit measures length?",
    "Correct Answer": "metre\n",
    "Incorrect Answer 1": "second",
    "Incorrect Answer 2": "gram",
    "Incorrect Answer 3": "ohm",
}
RLPR = {
    "data_source": "WebInstruct-verified-val_Avg2",
    "prompt": [
        {"role": "system", "content": "Put the answer in <answer> tags."},
        {"role": "user", "content": "How far is it from 2 km to 7 km?"},
    ],
    "ability": "Math",
    "reward_model": {"ground_truth": "5 km", "style": "rule"},
    "extra_info": None,
}
BIGCODEBENCH = {
    "task_id": "BigCodeBench/7",
    "complete_prompt": 'import math\n\ndef task_func(x):\n    """The square of x."""\n',
    "instruct_prompt": "Square it.",
    "code_prompt": "import math\ndef task_func(x):\n",
    "canonical_solution": "    return x * x",
    "test": "import unittest\nclass TestCases(unittest.TestCase):\n    def test_1(self):\n        pass\n",
    "entry_point": "task_func",
    "libs": "['math']",
}
HUMANEVAL = {
    "task_id": "HumanEval/3",
    "prompt": 'def twice(x):\n    """Twice x."""\n',
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
    "entry_point": "twice",
}
TESTS = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]
CALLS = [{"input": "1\n2", "output": "3", "testtype": "functional"}]


def packed(value: Any) -> str:
    """As LiveCodeBench packs private tests."""
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


LIVECODEBENCH = {
    "question_title": "Sum",
    "question_content": "Print the sum of two numbers.",
    "platform": "atcoder",
    "question_id": "abc000_a",
    "contest_id": "abc000",
    "contest_date": "2030-01-01T00:00:00",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": json.dumps(TESTS),
    "private_test_cases": packed(json.dumps([{"input": "4 5\n", "output": "9\n", "testtype": "stdin"}])),
    "metadata": "{}",
}
LIVECODEBENCH_CALL = LIVECODEBENCH | {
    "question_id": "9999",
    "platform": "leetcode",
    "starter_code": "class Solution:\n    def add(self, a: int, b: int) -> int:\n        ",
    "public_test_cases": json.dumps(CALLS),
    "private_test_cases": packed(json.dumps(CALLS)),
    "metadata": json.dumps({"func_name": "add"}),
}

# One good row of every set, under the names that `load` knows.
ROWS: dict[str, dict[str, Any]] = {
    "math500": MATH500,
    "mmlu": MMLU,
    "rlpr": RLPR,
    "livecodebench-v1": LIVECODEBENCH,
    "livecodebench-v6": LIVECODEBENCH_CALL,
    "gpqa-diamond": GPQA,
    "aime25": AIME25,
    "bigcodebench-hard": BIGCODEBENCH,
    "humaneval": HUMANEVAL,
}


def json_lines(directory: Path, *rows: Any) -> Path:
    path = directory / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def csv_file(directory: Path, *rows: dict[str, str]) -> Path:
    path = directory / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
