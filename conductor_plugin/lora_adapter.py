"""A trained low-rank adapter, as PEFT saves it: `adapter_config.json` beside `adapter_model.safetensors`.

What vLLM would refuse after a minute of loading is refused here at once.
"""

import json
import re
import struct
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from conductor_plugin.errors import InputError
from conductor_plugin.models import Frozen

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# What `--max-lora-rank` may be (vllm/config/lora.py of vLLM 0.32).
MAX_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
# What makes an adapter more than two matrices a layer, and beginnings that do not (vllm/lora/peft_helper.py).
UNSERVED = (
    *("use_dora", "modules_to_save", "lora_bias", "alora_invocation_tokens", "layer_replication", "use_bdlora"),
    "use_qalora",
)
SERVED_INITS = ("gaussian", "eva", "orthogonal", "mica", "lora_ga")
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
# Linear layers that read the model's hidden state, in the names of Llama, Qwen, Mistral and Gemma.
_READER = re.compile(r"\.layers\.(\d+)\.\w+\.(?:q|k|v|gate|up)_proj\.lora_A\.weight$")


class Adapter(Frozen):
    """A low-rank adapter in a folder, the model that it belongs to, and the largest rank of its layers."""

    folder: Path
    base: str
    rank: int


Rank = Annotated[int, Field(strict=True, ge=1)]


class _Config(Frozen):
    """What is read of PEFT's file; it has much more."""

    model_config = ConfigDict(extra="ignore")

    peft_type: Literal["LORA"]
    r: Rank
    rank_pattern: dict[str, Rank] | None = None
    base_model_name_or_path: str | None = None


def read_adapter(folder: Path, base: str | None = None) -> Adapter:
    """The adapter in a folder, for `base` (a folder or a model's name) instead of the model that it names itself.

    InputError: `no_adapter`, `bad_adapter`, `adapter_not_served` (a kind that vLLM refuses), `lora_rank`, `other_base`.
    """
    content = _json(folder / CONFIG, "no_adapter", f"{folder} holds no {CONFIG}; name the folder of a LoRA adapter")
    try:
        config = _Config.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"{folder / CONFIG} is none of a LoRA adapter with a rank r: {'.'.join(map(str, first['loc']))}: "
            f"{first['msg'][0].lower()}{first['msg'][1:]}",
            code="bad_adapter",
        ) from None
    _check_kind(folder / CONFIG, content)
    rank = max(config.r, *(config.rank_pattern or {}).values(), 0)
    if rank > MAX_RANKS[-1]:
        raise InputError(f"{folder} has rank {rank}; vLLM serves ranks up to {MAX_RANKS[-1]}", code="lora_rank")
    shapes = _shapes(folder / WEIGHTS)
    adapter = Adapter(folder=folder, base=_base(folder, config.base_model_name_or_path, base), rank=rank)
    if Path(adapter.base).is_dir():
        _check_sizes(adapter, shapes)
    return adapter


def _check_kind(place: Path, content: dict[str, Any]) -> None:
    unserved = [name for name in UNSERVED if content.get(name)]
    if content.get("bias", "none") != "none":
        unserved.append("bias")
    init = content.get("init_lora_weights")
    if isinstance(init, str) and init.lower() not in SERVED_INITS:
        unserved.append(f"init_lora_weights {init}")
    if unserved:
        raise InputError(
            f"vLLM serves no adapter with {unserved[0]}, which {place} has; train one without it, or merge it into its "
            "model",
            code="adapter_not_served",
        )


def _base(folder: Path, named: str | None, given: str | None) -> str:
    """The model that is served. Models of the hub are compared by their names, one in a folder later by its sizes."""
    base = named if given is None else given
    if not base:
        raise InputError(f"{folder / CONFIG} names no base model; say which with --base", code="other_base")
    if Path(base).is_dir():
        return base
    if not HUB_NAME.fullmatch(base):
        raise InputError(
            f"the adapter's model {base} is not here; say with --base in which folder it lies, or its name on the hub",
            code="other_base",
        )
    if named and HUB_NAME.fullmatch(named) and base != named:
        raise InputError(
            f"the adapter was trained on {named}, not on {base}; leave --base out, or name a folder that holds the "
            "same model",
            code="other_base",
        )
    return base


def _check_sizes(adapter: Adapter, shapes: dict[str, list[int]]) -> None:
    place = Path(adapter.base) / "config.json"
    config = _json(place, "other_base", f"{adapter.base} holds no model: there is no config.json")
    inner = config.get("text_config")
    config = inner if isinstance(inner, dict) else config
    layers, hidden = config.get("num_hidden_layers"), config.get("hidden_size")
    for name, shape in shapes.items():
        if not (match := _READER.search(name)):
            continue
        if type(layers) is not int or type(hidden) is not int:
            raise InputError(f"{place} does not say how large the model is", code="other_base")
        layer, size = int(match.group(1)), shape[1]
        if size != hidden or layer >= layers:
            raise InputError(
                f"the adapter was trained on another model: its layer {layer} reads {size} values, but {adapter.base} "
                f"has {layers} layers of {hidden}",
                code="other_base",
            )


def _shapes(weights: Path) -> dict[str, list[int]]:
    """The shapes of an adapter's matrices by their names, from the header of its safetensors file."""
    try:
        with weights.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, 100_000_000)))
        shapes = {name: tensor["shape"] for name, tensor in header.items() if ".lora_" in name}
        good = all(len(shape) == 2 and all(type(size) is int for size in shape) for shape in shapes.values())
    except FileNotFoundError:
        raise InputError(
            f"{weights.parent} holds no {WEIGHTS}, the adapter's weights; save the adapter again", code="no_adapter"
        ) from None
    except (OSError, ValueError, struct.error, AttributeError, TypeError, KeyError, RecursionError):
        good = False
    if not good or not shapes:
        raise InputError(
            f"{weights} cannot be read as an adapter's safetensors; save the adapter again", code="bad_adapter"
        )
    return shapes


def _json(path: Path, code: str, missing: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(missing, code=code) from None
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError(f"{path} cannot be read as a JSON object", code="bad_adapter")
    return content
