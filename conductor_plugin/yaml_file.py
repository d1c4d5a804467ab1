"""Reading YAML files that people wrote: whatever is in them, a value or one sentence."""

from pathlib import Path
from typing import Any

import yaml

MOST_BYTES = 1_000_000
MOST_VALUES = 10_000


class Unreadable(Exception):
    """The file gives no value. `str(error)` continues the sentence "PATH…"."""


class Missing(Unreadable):
    """There is no such file."""


def read_yaml(path: Path) -> Any:
    """The value in a YAML file; Unreadable says what is wrong, with the line where there is one.

    Stricter than YAML: a key that stands twice in a mapping is refused, since loaders otherwise drop one
    silently, and so is a value that aliases have made enormous or endless.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise Missing(f": {error.strerror}") from None
    except (OSError, ValueError) as error:
        raise Unreadable(f": {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MOST_BYTES:
        raise Unreadable(f": it has {len(content)} bytes; the limit is {MOST_BYTES}")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise Unreadable(": it is not UTF-8 text") from None
    try:
        value = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise Unreadable(f"{f', line {mark.line + 1}' if mark else ''}: not valid YAML: {problem[:200]}") from None
    except RecursionError:
        raise Unreadable(": not valid YAML: it nests too deeply") from None
    except Exception as error:  # the loader's constructors raise anything at all on odd tags and numbers
        raise Unreadable(f": not valid YAML: a value cannot be read ({type(error).__name__})") from None
    if _count(value, MOST_VALUES) > MOST_VALUES:
        raise Unreadable(f": with its aliases (*name) it holds more than {MOST_VALUES} values")
    return value


def _count(value: Any, most: int) -> int:
    """How many values are in a value, itself counted; the count ends when it passes `most`."""
    count, waiting = 0, [value]
    while waiting and count <= most:
        inner = waiting.pop()
        count += 1
        if isinstance(inner, dict):
            waiting.extend(inner.values())
        elif isinstance(inner, list):
            waiting.extend(inner)
    return count


class _StrictLoader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is a plain word", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)
