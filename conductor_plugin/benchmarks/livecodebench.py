"""LiveCodeBench: contest problems, judged by inputs and outputs.

The hub's test.jsonl is release v1; every later release adds one file, so that test6.jsonl is what v6 alone added.
"""

import base64
import io
import json
import pickle
import zlib
from typing import Any

from conductor_plugin.benchmarks.question import Question
from conductor_plugin.benchmarks.reader import TEXT, Benchmark, Hub, Row, with_rule

# The whole of one question's tests, unpacked. Real ones have up to some hundred megabytes.
MOST_BYTES = 512 * 2**20
KINDS = {"stdin": "stdin", "functional": "function"}
STDIN_RULE = "Write a Python program that reads standard input and writes standard output, in one ```python block."
FUNCTION_RULE = "Give the complete program with the class and its method as above, in one ```python block."


def identify(row: Row) -> str | None:
    return row.text("question_id")


def _builder(name: str) -> Any:
    def build(row: Row, id: str, seed: int) -> Question:
        tests = [*_tests(row, "public_test_cases"), *_tests(row, "private_test_cases")]
        if not tests:
            raise row.bad("it has no test")
        function = _function(row) if any(test["kind"] == "function" for test in tests) else None
        starter = row["starter_code"]
        rule = FUNCTION_RULE if function else STDIN_RULE
        given = f"\n\n```python\n{starter.strip()}\n```" if starter.strip() else ""
        return Question(
            id=id,
            benchmark=name,
            text=with_rule(row.text("question_content") + given, rule),
            gold={"tests": tests, "function": function, "starter_code": starter},
            grader="code_io",
            format_rule=rule,
            level=row.text("difficulty"),
            subject=row.text("platform"),
        )

    return build


def _function(row: Row) -> str:
    metadata = _json(row, "metadata", row["metadata"])
    name = metadata.get("func_name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name.isidentifier():
        raise row.bad("the field 'metadata' has no func_name, and its tests call a function")
    return name


def _tests(row: Row, name: str) -> list[dict[str, str]]:
    packed = row[name].strip()
    value = _json(row, name, packed if packed.startswith("[") else _unpacked(row, name, packed))
    if not isinstance(value, list):
        raise row.bad(f"the field {name!r} is no list of tests")
    return [_test(row, name, test) for test in value]


def _test(row: Row, name: str, test: Any) -> dict[str, str]:
    found: list[Any] = [test.get(key) for key in ("input", "output", "testtype")] if isinstance(test, dict) else []
    if len(found) != 3 or not all(isinstance(text, str) for text in found) or found[2] not in KINDS:
        raise row.bad(f"a test of {name!r} needs the texts input, output and testtype (stdin or functional)")
    return {"input": found[0], "output": found[1], "kind": KINDS[found[2]]}


def _json(row: Row, name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise row.bad(f"the field {name!r} is not valid JSON") from None


def _unpacked(row: Row, name: str, packed: str) -> str:
    """The text in base64 of zlib of pickle, as the set has its private tests."""
    try:
        inflater = zlib.decompressobj()
        content = inflater.decompress(base64.b64decode(packed, validate=True), MOST_BYTES)
    except (ValueError, zlib.error):
        raise row.bad(f"the field {name!r} is neither JSON nor base64 of zlib data") from None
    if not inflater.eof:
        raise row.bad(f"the field {name!r} is cut off, or has more than {MOST_BYTES} bytes unpacked")
    try:
        text = _OnlyValues(io.BytesIO(content)).load()
    except Exception:  # a pickle that was not made for us may raise anything
        raise row.bad(f"the field {name!r} is a pickle of something other than a text") from None
    if not isinstance(text, str):
        raise row.bad(f"the field {name!r} is a pickle of something other than a text")
    return text


class _OnlyValues(pickle.Unpickler):
    """A pickle can name any function and have it called; one that holds a text names none."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it wants {module}.{name}")


def _release(name: str, file: str) -> Benchmark:
    return Benchmark(
        fields=dict.fromkeys(
            (
                "question_id",
                "question_content",
                "starter_code",
                "public_test_cases",
                "private_test_cases",
                "metadata",
                "difficulty",
                "platform",
            ),
            TEXT,
        ),
        identify=identify,
        build=_builder(name),
        hub=Hub(
            repo="livecodebench/code_generation_lite",
            revision="0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
            files=(file,),
        ),
    )


LIVECODEBENCH_V1 = _release("livecodebench-v1", "test.jsonl")
LIVECODEBENCH_V6 = _release("livecodebench-v6", "test6.jsonl")
