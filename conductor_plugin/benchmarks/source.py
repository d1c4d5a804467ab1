"""Rows of a benchmark: from a local file, or from files on the Hugging Face hub at a pinned commit.

The hub's files are read as files. Its package `datasets` would add nothing: it refuses data sets that come with
a script (LiveCodeBench), and hides in which line of which file a row stands.
"""

import csv
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conductor_plugin.benchmarks.reader import Benchmark, Hub, Row
from conductor_plugin.errors import ConductorError, InputError

HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")  # perhaps one: a whole pair looks the same
INSTALL = 'pip install "prefect-conductor[evaluate]"'


def rows(benchmark: Benchmark, paths: list[Path]) -> Iterator[Row]:
    """Every row of the files, checked against the benchmark's fields.

    InputError `data_unreadable` for a file that cannot be read or has no rows, `data_bad_row` for a row that
    is not one of this set; both name the file, the line where there is one, and the field.
    """
    for path in paths:
        empty = True
        for where, value in _values(path):
            empty = False
            yield _checked(benchmark, where, value)
        if empty:
            raise _unreadable(path, "it has no rows")


def download(hub: Hub, revision: str | None) -> list[Path]:
    """The hub's files on this machine; those that were fetched before are not fetched again.

    ConductorError `benchmark_unavailable` if the hub refuses them or cannot be reached.
    """
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise _not_there(hub, f"huggingface_hub is not installed: {INSTALL}") from None
    commit = revision or hub.revision
    try:
        return [Path(hf_hub_download(hub.repo, file, repo_type="dataset", revision=commit)) for file in hub.files]
    except Exception as error:  # its own errors, its HTTP library's, the system's
        raise _not_there(hub, _reason(error, commit)) from None


def _reason(error: Exception, commit: str) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return "it is gated: accept its terms on its page, then run `hf auth login`"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"it has no revision {commit}"
    if isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError):
        return f"revision {commit} lacks a file that is read"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "there is no such data set, or it wants a token: run `hf auth login`"
    return f"the hub cannot be reached ({type(error).__name__})"


def _not_there(hub: Hub, reason: str) -> ConductorError:
    return ConductorError(
        f"cannot get {hub.repo} from Hugging Face: {reason}; a file of the same format can be given with --data",
        code="benchmark_unavailable",
    )


def _checked(benchmark: Benchmark, where: str, value: Any) -> Row:
    if not isinstance(value, dict):
        raise Row(where, {}).bad(f"a row is an object with fields, not {_kind(value)}")
    fields = {benchmark.aliases.get(name, name): inner for name, inner in value.items()}
    row = Row(where, fields)
    for name, types in benchmark.fields.items():
        if name not in fields:
            wanted = ", ".join(benchmark.fields)
            raise row.bad(f"the field {name!r} is missing; a row has {wanted}")
        if not isinstance(fields[name], types) or isinstance(fields[name], bool):
            raise row.bad(f"the field {name!r} is {_kind(fields[name])}, not {' or '.join(map(_name, types))}")
    return row


NAMES: Mapping[type, str] = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}


def _name(kind: type) -> str:
    return NAMES.get(kind, kind.__name__)


def _kind(value: Any) -> str:
    return "null" if value is None else _name(type(value))


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    """Where each row stands, and what is there."""
    readers = {".parquet": _parquet, ".csv": _csv}
    read = readers.get(path.suffix, _json_lines)
    try:
        yield from read(path)
    except (OSError, EOFError) as error:
        raise _unreadable(path, getattr(error, "strerror", None) or str(error)) from None
    except UnicodeDecodeError:
        raise _unreadable(path, "it is not UTF-8 text") from None


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield (where := f"{path}, line {number}"), _json(where, line)


def _json(where: str, line: str) -> Any:
    try:
        value = json.loads(line)
        if HALF_PAIR.search(line):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise Row(where, {}).bad("a text in it has half a surrogate pair, which is no text") from None
    except json.JSONDecodeError as error:
        raise Row(where, {}).bad(f"not valid JSON: {error.msg}") from None
    except (RecursionError, ValueError):  # nesting without end, or an integer of thousands of digits
        raise Row(where, {}).bad("not valid JSON: it nests too deeply or has a number that is too long") from None


def _csv(path: Path) -> Iterator[tuple[str, Any]]:
    csv.field_size_limit(10_000_000)
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        try:
            for fields in reader:
                yield f"{path}, line {reader.line_num}", {name: value for name, value in fields.items() if name}
        except csv.Error as error:
            raise _unreadable(path, f"not valid CSV: {error}") from None


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise _unreadable(path, f"parquet files need pyarrow: {INSTALL}") from None
    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches():
                for fields in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", fields
    except ArrowException as error:
        raise _unreadable(path, f"not valid parquet: {str(error).splitlines()[0][:200]}") from None


def _unreadable(path: Path, reason: str) -> InputError:
    return InputError(f"cannot read the data file {path}: {reason}", code="data_unreadable")
