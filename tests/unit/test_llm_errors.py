"""litellm's errors as ours: the class, the code, what the provider said, and never a key."""

import datetime
import email.utils
import pickle
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor_plugin.errors import (
    ContentPolicyError,
    ContextTooLongError,
    PermanentError,
    QuotaError,
    TransientError,
    WorkerTimeout,
)
from conductor_plugin.llm_errors import retry_after, scrub, translate

KEY = "sk-secret-0123456789abcdef"
REQUEST = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")


def response(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, headers=headers, request=REQUEST)


def raised(name: str, message: str = "it went wrong", **more: Any) -> Exception:
    """An error as litellm raises it."""
    import litellm.exceptions

    error: Exception = getattr(litellm.exceptions, name)(message=message, model="m", llm_provider="openai", **more)
    return error


QUOTA = "You exceeded your current quota. {'code': 'insufficient_quota'}"
# litellm's class and arguments; ours, its code, and whether the call may be billed all the same
TABLE: dict[str, tuple[str, dict[str, Any], type[Exception], str, bool]] = {
    "rate limit": ("RateLimitError", {}, TransientError, "rate_limit", False),
    "quota": ("RateLimitError", {"message": QUOTA}, QuotaError, "quota", False),
    "timeout": ("Timeout", {}, WorkerTimeout, "timeout", True),
    "connection": ("APIConnectionError", {}, TransientError, "connection", True),
    "500": ("InternalServerError", {}, TransientError, "upstream", True),
    "502": ("BadGatewayError", {}, TransientError, "upstream", False),
    "503": ("ServiceUnavailableError", {}, TransientError, "upstream", False),
    "api 409": ("APIError", {"status_code": 409}, TransientError, "upstream", False),
    "api 529": ("APIError", {"status_code": 529}, TransientError, "upstream", False),
    "api 401": ("APIError", {"status_code": 401}, PermanentError, "bad_key", False),
    "api 403": ("APIError", {"status_code": 403}, PermanentError, "bad_key", False),
    "api 413": ("APIError", {"status_code": 413}, PermanentError, "bad_request", False),
    "key": ("AuthenticationError", {}, PermanentError, "bad_key", False),
    "permission": ("PermissionDeniedError", {"response": response(403)}, PermanentError, "bad_key", False),
    "no such model": ("NotFoundError", {}, PermanentError, "no_such_model", False),
    "bad request": ("BadRequestError", {}, PermanentError, "bad_request", False),
    "parameters": ("UnsupportedParamsError", {}, PermanentError, "bad_request", False),
    "unprocessable": ("UnprocessableEntityError", {"response": response(422)}, PermanentError, "bad_request", False),
    "context": ("ContextWindowExceededError", {}, ContextTooLongError, "context_too_long", False),
    "policy": ("ContentPolicyViolationError", {}, ContentPolicyError, "content_policy", False),
}


@pytest.mark.parametrize(("name", "arguments", "ours", "code", "billed"), TABLE.values(), ids=TABLE)
def test_classes(name: str, arguments: dict[str, Any], ours: type[Exception], code: str, billed: bool) -> None:
    error = translate(raised(name, **arguments), "openai/m", KEY)
    assert (type(error), error.code, error.maybe_billed) == (ours, code, billed)
    assert str(error).startswith("openai/m")
    assert "\n" not in str(error)


@pytest.mark.parametrize("error", [TypeError("unexpected keyword 'foo'"), ValueError("x"), RuntimeError("Event loop")])
def test_other_exceptions_are_not_tried_again(error: Exception) -> None:
    ours = translate(error, "openai/m", None)
    assert (type(ours), ours.code) == (PermanentError, "bad_request")
    assert str(error) in str(ours)


@pytest.mark.parametrize(("name", "arguments"), [row[:2] for row in TABLE.values()], ids=TABLE)
def test_no_key_gets_through_and_every_error_is_picklable(name: str, arguments: dict[str, Any]) -> None:
    message = f"{arguments.get('message', '')} Incorrect key: {KEY}, in 'Bearer {KEY}' or sk-other-0123456789ABCDEF"
    error = translate(raised(name, **arguments | {"message": message}), "openai/m", KEY)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    for text in (str(error), repr(error), repr(vars(error)), repr(error.args)):
        assert KEY not in text
        assert "0123456789" not in text
    assert error.__cause__ is None


def test_a_long_page_is_cut_and_put_on_one_line() -> None:
    error = translate(raised("BadRequestError", "<html>\n" + "x" * 100_000), "openai/m", None)
    assert len(str(error)) < 600
    assert "\n" not in str(error)


def test_a_key_at_the_cut_does_not_survive_in_part() -> None:
    for before in range(430, 500):
        error = translate(raised("BadRequestError", "x" * before + KEY), "openai/m", KEY)
        assert "sk-secret" not in str(error)


@pytest.mark.parametrize(
    "key",
    [
        *("sk-proj-abcdefGHIJKL1234567890", "sk-ant-api03-abcdef-1234567890AB", "gsk_abcdefghijklmnop12345678"),
        *("xai-abcdefghijklmnop12345678", "hf_abcdefghijklmnopqrstuvwxyzABCDEF", "AIzaSyA1234567890abcdefghijklmnopq"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "key: {}.", "('{}')", '{{"key":"{}"}}', "Bearer {}", "a={}&b=1"])
def test_anything_that_looks_like_a_key_is_hidden(key: str, around: str) -> None:
    assert key[6:] not in scrub(around.format(key), None)
    assert key[6:] not in scrub(around.format(key), "another-key")


@given(st.text(), st.text(), st.text(alphabet=st.characters(exclude_characters="[key]"), min_size=7))
def test_the_given_key_is_hidden_wherever_it_stands(before: str, after: str, key: str) -> None:
    assert key not in scrub(before + key + after, key)


# Not only errors go through this sieve, every worker's output does.
ORDINARY = [
    "def task_description_text(x): return risk_adjusted_returns",
    "A risk-adjusted-return is a disk-based-measure of ask-me-anything-sessions.",
    "mask_token_embeddings = task-specific_instructions",
    "The ring bearer was late, and the standard bearer too.",
    "key_value_store_name, key-value-databases, foreign_key_constraint_name, primary-key-columns",
    "https://example.org/sk-learn/whisk-and-cream-together",
    "hf_hub_download(repo_id) and huggingface.co",
    "Send the header Authorization: Bearer <token>.",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_and_code_is_left_alone(text: str) -> None:
    assert scrub(text, None) == scrub(text, KEY) == text


def test_a_dummy_key_hides_no_words() -> None:
    assert scrub("no-key is needed", "no-key") == "no-key is needed"
    assert scrub("text", "") == scrub("text", None) == "text"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), ("1.5", 1.5), ("0", 0.0), ("-3", 0.0), ("soon", None), ("", None)],
)
def test_retry_after_in_seconds(value: str, seconds: float | None) -> None:
    limited = raised("RateLimitError", response=response(429, **{"Retry-After": value}))
    assert retry_after(limited) == seconds
    assert translate(limited, "m", None).retry_after_s == seconds


@pytest.mark.parametrize(("minutes", "most"), [(10, 600.0), (-10, 0.0)])
@pytest.mark.parametrize("zone", ["GMT", "+0200"])
def test_retry_after_as_a_date(minutes: int, most: float, zone: str) -> None:
    offset = datetime.timedelta(hours=2 if zone == "+0200" else 0)
    when = datetime.datetime.now(datetime.timezone(offset)) + datetime.timedelta(minutes=minutes)
    header = email.utils.format_datetime(when).rpartition(" ")[0] + f" {zone}"
    seconds = retry_after(raised("ServiceUnavailableError", response=response(503, **{"retry-after": header})))
    assert seconds is not None
    assert most - 60 <= seconds <= most


@pytest.mark.parametrize("wrong", [-3600, 3600])
def test_a_date_counts_from_the_replys_own_date(wrong: int) -> None:
    """So that a clock that is an hour wrong, here or there, changes nothing."""
    theirs = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=wrong)
    headers = {
        "date": email.utils.format_datetime(theirs, usegmt=True),
        "retry-after": email.utils.format_datetime(theirs + datetime.timedelta(seconds=20), usegmt=True),
    }
    assert retry_after(raised("RateLimitError", response=response(429, **headers))) == 20.0


def test_no_retry_after() -> None:
    for error in (raised("RateLimitError"), raised("APIConnectionError"), ValueError("x")):
        assert retry_after(error) is None
