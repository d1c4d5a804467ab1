"""What single values of a pool file may be: names, addresses, numbers, and settings without a secret.

A validator raises ValueError("code|sentence"), as in `worker_spec`.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

# What complete() and the retry policy set for every call.
OWN_PARAMS = {
    *("model", "messages", "stream", "n", "timeout", "num_retries", "max_retries", "api_base", "base_url"),
    *("drop_params", "fallbacks", "mock_response"),
}
ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
AN_ADDRESS = "an address with http:// or https://, a host and, if any, a port from 1 to 65535"
SECRET_BLOCK = re.compile(r"secret/[a-z0-9-]+")
SECRET = re.compile(r"api_?key|authorization|secret|password|credential|access_?key|(^|_)token$|headers", re.IGNORECASE)


def _name_not_key(name: str) -> str:
    """A variable's or a Secret block's name; refused if it looks like a pasted key, which is not repeated."""
    if SECRET_BLOCK.fullmatch(name):
        return name
    looks_like_a_key = len(name) >= 16 and "_" not in name and any(c.isdigit() for c in name)
    if not ENV_NAME.fullmatch(name) or looks_like_a_key:
        raise ValueError(
            "pool_key_in_file|api_key_env must be the NAME of an environment variable (like OPENAI_API_KEY) or "
            f"secret/BLOCK-NAME, never a key itself; it begins with {name[:3]!r}"
        )
    return name


def _no_secrets(params: dict[str, Any]) -> dict[str, Any]:
    """Settings that go to the model as they are; neither a key nor what a call sets itself."""
    for key in _keys(params):
        if SECRET.search(key):
            raise ValueError(
                f"pool_key_in_file|params.{key} would put a secret into the pool file; "
                "name an environment variable in api_key_env instead"
            )
    for key in params:
        if key in OWN_PARAMS:
            raise ValueError(f"pool_bad_value|params.{key} is set by the call itself; leave it out")
    return params


def _keys(value: Any) -> Iterator[str]:
    """The keys of a mapping and of all mappings inside it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _keys(inner)


def _one_line(text: str) -> str:
    if not text.strip() or len(text.splitlines()) > 1:
        raise ValueError("pool_bad_value|a name is one line of text")
    return text


def _names_a_model(text: str) -> str:
    if not text.rpartition("/")[2].strip():
        raise ValueError(f"pool_bad_value|model {text!r} names no model; write its name behind the provider")
    return text


def check_address(text: str) -> SplitResult:
    """The parts of a server's address; ValueError where it is none, or holds white space."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:  # .port raises ValueError, too
        raise ValueError("no http address")
    if re.search(r"[\s\x00-\x1f\x7f]", text):
        raise ValueError("white space")
    return parts


def _address(text: str) -> str:
    """Whatever litellm made of a broken one, a call and its key could go elsewhere."""
    try:
        parts = check_address(text)
    except ValueError:
        raise ValueError(f"pool_bad_value|api_base must be {AN_ADDRESS}, like http://127.0.0.1:8000/v1") from None
    if "@" in parts.netloc or any(SECRET.search(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise ValueError(
            "pool_key_in_file|api_base would put a secret into the pool file; name an environment variable in "
            "api_key_env instead"
        )
    return text


def _no_yes(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("pool_bad_value|yes and no are no numbers")
    return value


# `retries: yes` is 1 otherwise. Of other numbers a text may be one: 1e4 without a dot is a text in YAML.
Whole = Annotated[int, Field(strict=True)]
Number = Annotated[float, BeforeValidator(_no_yes), Field(allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=80), AfterValidator(_one_line)]
KeyName = Annotated[str, AfterValidator(_name_not_key)]
ModelName = Annotated[str, AfterValidator(_names_a_model)]
Address = Annotated[str, AfterValidator(_address)]
Params = Annotated[dict[str, Any], AfterValidator(_no_secrets)]
