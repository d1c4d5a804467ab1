"""A pool's entries: one worker, and the pool's default planner. Their rules, each with its own clear sentence.

A validator raises ValueError("code|sentence"); `conductor_plugin.pool` turns it into a PoolError that also
names the worker and the field.
"""

import hashlib
import json
import re
from typing import Any

from pydantic import Field, field_validator, model_validator

from conductor_plugin.models import Frozen
from conductor_plugin.pool_values import ENV_NAME, Address, KeyName, ModelName, Name, Number, Params, Whole

# The parameters that bound an answer's tokens, the stronger one first.
OUTPUT_CAPS = ("max_completion_tokens", "max_tokens")
SHAPING = ("structured_outputs", "response_format")  # what says to vLLM which texts may be written
VLLM_PROVIDERS = ("openai", "hosted_vllm")
BUILT_KINDS = ("llm", "local", "calculator", "number", "text", "python")
PLANNED_KINDS = ("search", "mcp")
CALLABLE_KIND = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
BRANDS = re.compile(
    r"\b(?:chatgpt|gpt(?:-?\d[\w.-]*)?|openai|claude|anthropic|sonnet|opus|haiku|gemini|gemma|google|llama[\w.-]*"
    r"|qwen[\w.-]*|alibaba|mistral|mixtral|deepseek[\w.-]*|grok|xai|cohere|smollm\w*|kimi|moonshot|zhipu|glm"
    r"|hugging ?face|nvidia|nemotron|microsoft|phi-\d)\b",
    re.IGNORECASE,
)


class Price(Frozen):
    """USD per million tokens."""

    input: Number = Field(ge=0)
    output: Number = Field(ge=0)


class LLM(Frozen):
    """Which model answers, where, with which settings. `api_key_env` is a variable's name or `secret/BLOCK`."""

    model: str
    api_base: str | None = None
    api_key_env: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    price: Price | None = None


class WorkerSpec(Frozen):
    """One entry of `workers:`. Times are in seconds, prices in USD per million tokens."""

    name: Name
    kind: str
    describe: str = ""
    model: ModelName | None = None
    api_base: Address | None = None
    api_key_env: KeyName | None = None
    params: Params = Field(default_factory=dict)
    tags: tuple[str, ...] = ()
    clearance: str | None = None
    price: Price | None = None
    timeout_seconds: Number = Field(default=120.0, gt=0)
    retries: Whole = Field(default=3, ge=0, le=20)
    fallbacks: tuple[str, ...] = ()
    max_concurrency: Whole | None = Field(default=None, ge=1)
    global_limit: str | None = None
    requests_per_minute: Number | None = Field(default=None, gt=0)
    tokens_per_minute: Number | None = Field(default=None, gt=0)

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str) -> str:
        if kind in PLANNED_KINDS:
            raise ValueError(f"pool_kind_not_built|kind {shorten(kind)} is not built yet; use one of {_kinds()}")
        if kind not in BUILT_KINDS and not CALLABLE_KIND.fullmatch(kind):
            raise ValueError(f"pool_unknown_kind|kind {shorten(kind)} is unknown; use one of {_kinds()}")
        return kind

    @field_validator("describe")
    @classmethod
    def _one_line_without_brand(cls, text: str) -> str:
        if len(text.strip().splitlines()) > 1:
            raise ValueError("pool_bad_value|describe must be one line")
        if brand := BRANDS.search(text):
            raise ValueError(
                f"pool_brand_in_describe|describe names the brand {brand.group()!r}, which a planner must not "
                "see; say what the worker is good at instead"
            )
        return text.strip()

    @model_validator(mode="after")
    def _fields_fit_kind(self) -> "WorkerSpec":
        if self.kind == "llm" and not self.model:
            raise ValueError("pool_bad_value|kind llm needs a model, for example model: openai/gpt-5-mini")
        if self.kind != "llm":
            for field in ("model", "api_base", "api_key_env", "price"):
                if getattr(self, field) is not None:
                    raise ValueError(f"pool_bad_value|{field} belongs to kind llm, not to kind {self.kind}")
        model_id = (self.model or "").rsplit("/", 1)[-1].lower()
        if model_id and re.search(rf"(?<!\w){re.escape(model_id)}(?!\w)", self.describe.lower()):
            raise ValueError(
                f"pool_brand_in_describe|describe repeats the model name {model_id!r}, which a planner must not see"
            )
        return self

    @property
    def output_cap(self) -> int | None:
        """The most tokens of one answer, as `params` set it; None where they set none."""
        caps = [self.params[name] for name in OUTPUT_CAPS if type(self.params.get(name)) is int]
        return caps[0] if caps else None

    def with_caps(self, times: int) -> "WorkerSpec":
        """This worker with that many times the output cap, if it has one, and the time that this may take."""
        if times == 1 or self.output_cap is None:
            return self
        larger = {name: times * self.params[name] for name in OUTPUT_CAPS if type(self.params.get(name)) is int}
        return self.model_copy(
            update={"params": {**self.params, **larger}, "timeout_seconds": times * self.timeout_seconds}
        )

    @property
    def needs_variable(self) -> bool:
        """Whether `api_key_env` names an environment variable (and not a Secret block)."""
        return self.api_key_env is not None and ENV_NAME.fullmatch(self.api_key_env) is not None

    @property
    def fingerprint(self) -> str:
        """Hash of what decides this worker's answers: kind, model and params (not its name or its price)."""
        return digest({"kind": self.kind, "model": self.model, "params": self.params})

    @property
    def key(self) -> str:
        """Under what its calls are kept: the fingerprint and the endpoint."""
        return digest([self.fingerprint, self.api_base])


class Grammar(Frozen):
    """How long the plans are that a server's grammar allows, in characters: the reasoning, and each instruction.

    With `reasoning: 0` the plan is the three lists alone. What a plan must be beyond that is the question's own rules.
    """

    reasoning: Whole = Field(default=1000, ge=0, le=20_000)
    subtask: Whole = Field(default=400, ge=1, le=2_000)


class PlannerSpec(Frozen):
    """A pool file's default planner.

    `kind: prompted` with a `model`, `kind: template` with a `name`, or `kind: conductor`, the trained one, with the
    folder of another one than the default as `name`. `workers` names those of its training that the pool has, where the
    pool has others too, or lacks some. With `grammar`, a prompted one's server lets it write valid plans only;
    `timeout_seconds` and `retries` are a prompted one's, too, and what a worker's are by default.
    """

    kind: str
    model: ModelName | None = None
    name: str | None = None
    api_base: Address | None = None
    api_key_env: KeyName | None = None
    params: Params = Field(default_factory=dict)
    price: Price | None = None
    clearance: str | None = None
    workers: tuple[str, ...] = ()
    grammar: Grammar | None = None
    timeout_seconds: Number | None = Field(default=None, gt=0)
    retries: Whole | None = Field(default=None, ge=0, le=20)

    @model_validator(mode="after")
    def _is_whole(self) -> "PlannerSpec":
        if self.grammar:
            self._takes_grammar()
        if self.kind != "prompted" and self.patience:
            raise ValueError(f"pool_bad_value|{min(self.patience)} belongs to a planner of kind prompted")
        if self.workers and self.kind != "conductor":
            raise ValueError("pool_bad_value|only a planner of kind conductor has workers")
        whole = {"prompted": self.model, "template": self.name, "conductor": True}
        if not whole.get(self.kind):
            raise ValueError(
                "pool_bad_value|a planner is {kind: prompted, model: …}, {kind: template, name: …} or {kind: conductor}"
            )
        return self

    @property
    def patience(self) -> dict[str, Any]:
        """How long it is waited for and how often it is asked again, where the pool file says so."""
        return self.model_dump(include={"timeout_seconds", "retries"}, exclude_none=True)

    def _takes_grammar(self) -> None:
        """Only a server of one's own reads vLLM's field `structured_outputs`; others refuse it or pass it over."""
        provider = (self.model or "").partition("/")[0]
        if self.kind != "prompted" or provider not in VLLM_PROVIDERS or not self.api_base:
            raise ValueError(
                "pool_bad_value|grammar is for a planner of kind prompted that vLLM serves: model: openai/NAME (or "
                "hosted_vllm/NAME) and its api_base"
            )
        body = self.params.get("extra_body", {})
        if not isinstance(body, dict) or any(key in place for key in SHAPING for place in (body, self.params)):
            raise ValueError(
                "pool_bad_value|grammar says by itself what the model may write; leave params.response_format and "
                "structured_outputs out, and write extra_body as a mapping"
            )


def _kinds() -> str:
    return ", ".join(BUILT_KINDS) + ' or "package.module:callable"'


def shorten(value: object) -> str:
    """A value in quotes for a sentence, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def digest(value: object, length: int = 16) -> str:
    """The first hexadecimal digits of a JSON-able value's SHA-256."""
    text = json.dumps(_with_text_keys(value), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _with_text_keys(value: object) -> object:
    """Numbers as keys (a logit bias, say) are texts in JSON anyway, and mixed keys cannot be sorted."""
    if isinstance(value, dict):
        return {str(key): _with_text_keys(inner) for key, inner in value.items()}
    return [_with_text_keys(inner) for inner in value] if isinstance(value, list | tuple) else value
