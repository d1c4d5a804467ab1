"""litellm's exceptions as ours: classified, free of keys, picklable.

litellm's own classes cannot be unpickled and may carry a key that an upstream echoed.
"""

import datetime
import email.utils
import math
import re

from conductor_plugin.errors import (
    ContentPolicyError,
    ContextTooLongError,
    PermanentError,
    QuotaError,
    TransientError,
    WorkerError,
    WorkerTimeout,
)

# Looks like a key: a known prefix, then many characters with a digit among them. Ordinary words and code do not.
_KEY_LIKE = re.compile(
    r"\b(?:(?:sk|pk|rk|gsk|xai)[-_](?=[\w-]*\d)[\w-]{16,}|hf_[A-Za-z0-9]{20,}|AIza[\w-]{20,})"
    r"|(?<=Bearer )(?=\S*\d)[\w.~+/=-]{16,}"
)
_POLICY_CODES = {"content_policy_violation", "content_filter"}
_POLICY_WORDS = re.compile(
    r"(?:our|the) safety system|content management policy|violating our usage policy", re.IGNORECASE
)
_TRANSIENT_STATUS = {408, 409, 425, 429}
_LONGEST_MESSAGE = 500


def translate(error: Exception, model: str, key: str | None) -> WorkerError:
    """Our error for one that a litellm call raised."""
    import litellm.exceptions as theirs

    said = " ".join(str(error).split()).partition(" Traceback (most")[0]
    detail = scrub(said, key)[:_LONGEST_MESSAGE]
    status = getattr(error, "status_code", None)
    sentence = f"{model}: {detail}"
    if isinstance(error, theirs.Timeout):
        return WorkerTimeout(f"{model} timed out", code="timeout", retry_after_s=retry_after(error), maybe_billed=True)
    code = str(getattr(error, "code", "") or "")
    body = getattr(error, "body", None)
    body = body if isinstance(body, dict) else {}
    if isinstance(error, theirs.ContextWindowExceededError) or code == "context_length_exceeded":
        return ContextTooLongError(sentence, code="context_too_long")
    codes = {code, str(body.get("code")), str(body.get("type"))}
    if isinstance(error, theirs.ContentPolicyViolationError) or codes & _POLICY_CODES or _POLICY_WORDS.search(said):
        return ContentPolicyError(sentence, code="content_policy")
    if isinstance(error, theirs.RateLimitError):
        if "insufficient_quota" in (body.get("code"), body.get("type")) or "insufficient_quota" in str(error):
            return QuotaError(sentence, code="quota")
        return TransientError(sentence, code="rate_limit", retry_after_s=retry_after(error))
    if (lost := _lost_connection(error)) is not None:
        return TransientError(sentence, code="connection", maybe_billed=lost)
    if isinstance(error, theirs.APIConnectionError):
        return TransientError(sentence, code="connection", maybe_billed=True)
    if isinstance(error, theirs.AuthenticationError | theirs.PermissionDeniedError):
        return PermanentError(f"{model} refused the key: {detail}", code="bad_key")
    if isinstance(error, theirs.NotFoundError):
        return PermanentError(f"{model} does not exist there: {detail}", code="no_such_model")
    if isinstance(status, int) and (status >= 500 or status in _TRANSIENT_STATUS):
        return TransientError(sentence, code="upstream", retry_after_s=retry_after(error), maybe_billed=status == 500)
    if status == 402:
        return QuotaError(sentence, code="quota")
    if isinstance(status, int) and status in (401, 403):
        return PermanentError(f"{model} refused the key: {detail}", code="bad_key")
    return PermanentError(sentence, code="bad_request")


def _lost_connection(error: BaseException) -> bool | None:
    """Whether a lost connection may have been billed: not if it was never made. None for any other error.

    litellm reports lost connections as errors 500; what really happened is behind them.
    """
    import httpx
    import openai

    cause: BaseException | None = error
    for _ in range(10):
        if isinstance(cause, httpx.ConnectError):
            return False
        if isinstance(cause, openai.APIConnectionError) and not isinstance(cause, openai.APITimeoutError):
            inner = cause.__cause__ or cause.__context__
            return not isinstance(inner, httpx.ConnectError)
        cause = cause.__cause__ or cause.__context__ if cause else None
    return None


def scrub(text: str, key: str | None) -> str:
    """Text without the key, nor anything that looks like one."""
    if key and len(key) > 6:
        text = text.replace(key, "[key]")
    return _KEY_LIKE.sub("[key]", text)


def retry_after(error: Exception) -> float | None:
    """Seconds of the reply's Retry-After header, which may be a number or a date.

    A date counts from the reply's own Date: this machine's clock may be wrong, or have jumped.
    """
    response = getattr(error, "response", None)
    headers = getattr(response, "headers", None) or getattr(error, "litellm_response_headers", None) or {}
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    except ValueError:
        pass
    when, now = _date(value), _date(headers.get("date") or "")
    if when is None:
        return None
    return max((when - (now or datetime.datetime.now(datetime.UTC))).total_seconds(), 0.0)


def _date(value: str) -> datetime.datetime | None:
    """A date of HTTP, which without a zone is in UTC."""
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=datetime.UTC)
