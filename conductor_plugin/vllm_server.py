"""How vLLM serves a trained Conductor that is an adapter: its command, and the pool file's planner that points there.

The adapter is read as PEFT saves it: `adapter_config.json` beside `adapter_model.safetensors`. What vLLM would refuse
after a minute of loading is refused here at once.
"""

import json
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conductor_plugin.errors import InputError
from conductor_plugin.models import Frozen
from conductor_plugin.worker_spec import Grammar, PlannerSpec

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
HOST = "127.0.0.1"  # vLLM asks nobody for a key: whoever reaches it can use it
# What `--max-lora-rank` may be (vllm/config/lora.py of vLLM 0.32).
MAX_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
# Linear layers that read the model's hidden state, in the names of Llama, Qwen, Mistral and Gemma.
_READER = re.compile(r"\.layers\.(\d+)\.\w+\.(?:q|k|v|gate|up)_proj\.lora_A\.weight$")
STEPS = 5  # of a plan, as `conductor answer` has it by default; for a suggestion alone


class Adapter(Frozen):
    """A low-rank adapter in a folder, the model that it belongs to, and the largest rank of its layers."""

    folder: Path
    base: str
    rank: int


def read_adapter(folder: Path, base: str | None = None) -> Adapter:
    """The adapter in a folder, for `base` (a folder or a model's name) instead of the model that it names itself.

    InputError: `no_adapter`, `bad_adapter`, `adapter_not_served` (a kind that vLLM refuses), `lora_rank`, `other_base`.
    """
    config = _json(folder / CONFIG, "no_adapter", f"{folder} holds no {CONFIG}; name the folder of a LoRA adapter")
    named, rank = config.get("base_model_name_or_path"), config.get("r")
    if config.get("peft_type") != "LORA" or type(rank) is not int or rank < 1:
        raise InputError(f"{folder / CONFIG} is none of a LoRA adapter with a rank r", code="bad_adapter")
    unserved = [name for name in ("use_dora", "modules_to_save", "lora_bias") if config.get(name)]
    if unserved or config.get("bias", "none") != "none":
        raise InputError(
            f"vLLM serves no adapter with {(unserved or ['bias'])[0]}, which {folder / CONFIG} has; train one without "
            "it, or merge it into its model",
            code="adapter_not_served",
        )
    rank = max(rank, *(config.get("rank_pattern") or {}).values(), 0)
    if rank > MAX_RANKS[-1]:
        raise InputError(f"{folder} has rank {rank}; vLLM serves ranks up to {MAX_RANKS[-1]}", code="lora_rank")
    if not (base or named):
        raise InputError(f"{folder / CONFIG} names no base model; say which with --base", code="other_base")
    adapter = Adapter(folder=folder, base=str(base or named), rank=rank)
    _check_base(adapter, str(named or ""))
    return adapter


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


def _check_base(adapter: Adapter, named: str) -> None:
    """A model in a folder is compared by its sizes; of one elsewhere, only the name is known."""
    if not Path(adapter.base).is_dir():
        if named and adapter.base != named:
            raise InputError(
                f"the adapter was trained on {named}, not on {adapter.base}; leave --base out, or name a folder that "
                "holds the same model",
                code="other_base",
            )
        return
    place = Path(adapter.base) / "config.json"
    config = _json(place, "other_base", f"{adapter.base} holds no model: there is no config.json")
    config = config.get("text_config") or config
    layers, hidden = config.get("num_hidden_layers"), config.get("hidden_size")
    for layer, size in _reads(adapter.folder / WEIGHTS):
        if size != hidden or layer >= (layers or 0):
            raise InputError(
                f"the adapter was trained on another model: its layer {layer} reads {size} values, but {adapter.base} "
                f"has {layers} layers of {hidden}",
                code="other_base",
            )


def _reads(weights: Path) -> list[tuple[int, int]]:
    """Layer and input size of each matrix that reads the hidden state, from the header of a safetensors file."""
    try:
        with weights.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, 100_000_000)))
        found = [(match, tensor["shape"]) for name, tensor in header.items() if (match := _READER.search(name))]
        return [(int(match.group(1)), int(shape[1])) for match, shape in found]
    except (OSError, ValueError, struct.error, AttributeError, TypeError, KeyError, IndexError):
        raise InputError(
            f"{weights} cannot be read as safetensors; save the adapter again", code="bad_adapter"
        ) from None


def _json(path: Path, code: str, missing: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(missing, code=code) from None
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise InputError(f"{path} cannot be read as a JSON object", code="bad_adapter")
    return content
