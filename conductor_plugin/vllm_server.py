"""How vLLM serves a trained Conductor that is an adapter: its command, and the pool file's planner that asks it."""

from collections.abc import Sequence

from conductor_plugin.errors import InputError
from conductor_plugin.lora_adapter import MAX_RANKS, Adapter
from conductor_plugin.worker_spec import Grammar, PlannerSpec

HOST = "127.0.0.1"  # vLLM asks nobody for a key: whoever reaches it can use it
STEPS = 5  # of a plan, as `conductor answer` has it by default; for a suggestion alone


def serve_command(
    adapter: Adapter,
    *,
    name: str,
    port: int,
    dtype: str,
    max_model_len: int | None,
    python: str = "python",
    more: Sequence[str] = (),
) -> list[str]:
    """The command that serves an adapter as the model `name`, and what it belongs to as `name-base`.

    `max_model_len` is in tokens, prompt and plan together. `python` is the interpreter that has vLLM, `more` are
    options of vLLM's own, none that is set here: InputError `bad_option`. Plans are constrained by the backend
    `guidance`: xgrammar is slow with bounded texts.
    """
    command = [
        *(python, "-m", "vllm.entrypoints.openai.api_server", "--model", adapter.base),
        *("--served-model-name", f"{name}-base", "--host", HOST, "--port", str(port), "--dtype", dtype),
        *("--enable-lora", "--lora-modules", f"{name}={adapter.folder}"),
        *("--max-lora-rank", str(next(rank for rank in MAX_RANKS if rank >= adapter.rank))),
        *("--structured-outputs-config.backend", "guidance"),
        *(("--max-model-len", str(max_model_len)) if max_model_len else ()),
    ]
    _check_more(command, more)
    return [*command, *more]


def planner_entry(name: str, port: int, grammar: Grammar) -> PlannerSpec:
    """The pool file's `planner:` that asks this server. Its `max_tokens` leave a token for two characters."""
    return PlannerSpec(
        kind="prompted",
        model=f"openai/{name}",
        api_base=f"http://{HOST}:{port}/v1",
        params={"max_tokens": 256 + (grammar.reasoning + STEPS * grammar.subtask) // 2},
        grammar=grammar,
    )


def _check_more(command: Sequence[str], more: Sequence[str]) -> None:
    """Of an option given twice vLLM takes the last, and the pool file's lines would no longer fit.

    It reads `--served_model_name` and `--served` as `--served-model-name`, too.
    """
    if more and not more[0].startswith("-"):
        raise InputError(f"{more[0]!r} is one argument too many; options of vLLM begin with -", code="bad_option")
    for flag in (word.partition("=")[0].replace("_", "-") for word in more if word.startswith("--")):
        if any(own.startswith(flag) for own in command):
            raise InputError(
                f"{flag} behind -- is set by serve-planner itself; use its own options, or run the printed command, "
                "changed as you like",
                code="bad_option",
            )
