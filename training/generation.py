"""Which vLLM samples completions, where it is not the model itself; and what TRL is told of it."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from conductor_plugin.errors import InputError
from conductor_plugin.models import Frozen
from conductor_plugin.pool_values import AN_ADDRESS, Whole, check_address
from training.values import Count, Flag


def _server(url: str) -> str:
    """TRL writes its paths behind it, which are beside /v1."""
    try:
        parts = check_address(url)
    except ValueError:
        raise ValueError(f"it must be {AN_ADDRESS}, like http://127.0.0.1:8000") from None
    if parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("it must be the server's address alone, like http://127.0.0.1:8000, without /v1")
    return url


class Colocated(Frozen):
    """vLLM in the trainer's processes, which samples and learns in turns on the same GPUs.

    `memory` is its share of each GPU: weights, keys and values. One copy of the model is split over `tensor_parallel`
    processes. With `sleep` it gives up its memory while the model learns. `context`: tokens of a prompt with its
    completion, at most; None: what the model can read.
    """

    vllm: Literal["colocate"]
    memory: Annotated[float, Field(gt=0, lt=1)]
    tensor_parallel: Count = 1
    sleep: Flag = False
    context: Count | None = None


class Served(Frozen):
    """A vLLM server on GPUs of its own at `url`, which the trainer sends its weights to, by NCCL from `group_port`.

    At the start it is waited for so long.
    """

    vllm: Literal["server"]
    url: Annotated[str, AfterValidator(_server)]
    group_port: Annotated[Whole, Field(ge=1, le=65535)] = 51216
    wait_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 600.0

    @model_validator(mode="after")
    def _has_two_ports(self) -> "Served":
        if check_address(self.url).port == self.group_port:
            raise ValueError(f"group_port {self.group_port} is the server's own; choose another")
        return self


def vllm_arguments(spec: Colocated | Served | None, processes: int) -> dict[str, Any]:
    """TRL's arguments for it; none where the model itself samples. InputError `bad_generation`.

    What vLLM's probabilities differ from the trainer's by, TRL corrects the loss for, as it does by default.
    """
    if spec is None:
        return {}
    if isinstance(spec, Served):
        return {
            "use_vllm": True,
            "vllm_mode": "server",
            "vllm_server_base_url": spec.url,
            "vllm_server_timeout": spec.wait_seconds,
            "vllm_group_port": spec.group_port,
        }
    if processes % spec.tensor_parallel:
        raise InputError(
            f"generation.tensor_parallel {spec.tensor_parallel} does not divide the {processes} processes of the run; "
            "choose one that does",
            code="bad_generation",
        )
    return {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": spec.memory,
        "vllm_tensor_parallel_size": spec.tensor_parallel,
        "vllm_enable_sleep_mode": spec.sleep,
        "vllm_max_model_length": spec.context,
    }


def not_there(spec: Colocated | Served | None, error: ImportError | ConnectionError) -> Exception:
    """What is wrong where TRL finds no vLLM, in a sentence: InputError `not_installed` or `generation_unreachable`."""
    if isinstance(error, ConnectionError) and isinstance(spec, Served):
        return InputError(
            f"there was no vLLM server at {spec.url} in {spec.wait_seconds:g} s; start it first (docs/gpus.md has the "
            "command), or mend generation.url",
            code="generation_unreachable",
        )
    if isinstance(error, ImportError) and spec:
        return InputError(
            "generation needs vLLM, which is not installed here: pip install --constraint constraints-gpu.txt "
            "--editable '.[train,evaluate,gpu]' (docs/gpus.md), or leave generation out",
            code="not_installed",
        )
    return error
