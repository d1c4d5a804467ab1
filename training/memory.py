"""How much memory training takes on each GPU: `python -m training.memory`, the table of docs/gpus.md.

Arithmetic, not measurement. Bytes for each parameter that learns, with Adam:

    whole       4 weights + 4 gradients + 8 moments, all float32, and 2 for the bfloat16 copies that autocast keeps
    zero2       2 weights; 4 gradients + 12 (float32 weights and moments) in equal shares of the processes
    zero3       all 18 in shares, and LIVE parameters that are gathered for the moment

`offload` keeps the 12 in the CPU's memory. With a low-rank adapter the model's weights are 2 bytes and do not learn;
the adapter is float32. Activations are those of one backward pass with gradient checkpointing: the input of each layer
and one layer's insides in bfloat16; and what TRL's head, which never holds whole logits, adds up in float32: the
gradients of its inputs, and of its matrix where that learns.

Not counted: the CUDA context, NCCL, fragmentation, CUDA graphs. Leave a tenth of the memory for them.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

GB = 1e9
LIVE = 1_000_000_000  # DeepSpeed's stage3_max_live_parameters
Sharing = Literal["whole", "zero2", "zero3"]


@dataclass(frozen=True)
class Shape:
    """A decoder as its public config.json has it: grouped-query attention with biases on q, k and v, as Qwen2."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    tied: bool

    @property
    def kv_width(self) -> int:
        """Numbers of a token's keys in one layer."""
        return self.hidden // self.heads * self.kv_heads

    @property
    def linears(self) -> tuple[tuple[int, int], ...]:
        """(inputs, outputs) of a layer's seven matrices."""
        across, up = (self.hidden, self.hidden), (self.hidden, self.intermediate)
        return (across, (self.hidden, self.kv_width), (self.hidden, self.kv_width), across, up, up, up[::-1])

    @property
    def parameters(self) -> int:
        """All of them; a tied head is the embedding and counts once."""
        matrices = sum(inputs * outputs for inputs, outputs in self.linears)
        biases, norms = self.hidden + 2 * self.kv_width, 2 * self.hidden
        tables = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return self.layers * (matrices + biases + norms) + tables + self.hidden

    def adapter(self, rank: int) -> int:
        """Parameters of a low-rank adapter on all matrices of all layers."""
        return self.layers * rank * sum(inputs + outputs for inputs, outputs in self.linears)

    @property
    def kv_bytes(self) -> int:
        """Keys and values of one token in bfloat16."""
        return 2 * 2 * self.layers * self.kv_width


# huggingface.co/Qwen/Qwen2.5-3B and -7B, config.json
SHAPES: Mapping[str, Shape] = {
    "3b": Shape(2048, 36, 16, 2, 11008, 151936, tied=True),
    "7b": Shape(3584, 28, 28, 4, 18944, 152064, tied=False),
}


@dataclass(frozen=True)
class Layout:
    """Who sits where: `trainers` GPUs train, each with a vLLM beside it, or `servers` others have one each."""

    trainers: int
    sharing: Sharing = "whole"
    offload: bool = False
    rank: int | None = None
    servers: int = 0

    @property
    def name(self) -> str:
        """For a person."""
        learns = f"LoRA {self.rank}" if self.rank else "full"
        train = f"{self.trainers} train ({self.sharing}{', offload' * self.offload})"
        return f"{learns}, {train}, {f'{self.servers} serve' if self.servers else 'vLLM beside'}"


@dataclass(frozen=True)
class Work:
    """An iteration: `rollouts` in all, `batch` of them in one backward pass of a process; lengths in tokens."""

    rollouts: int = 256
    batch: int = 8
    prompt: int = 1536
    completion: int = 1024


WORK = Work()


def states(shape: Shape, layout: Layout) -> dict[str, float]:
    """Bytes of weights, gradients and Adam's on each training GPU, and those in the CPU's memory for all processes."""
    if layout.rank:
        learns = shape.adapter(layout.rank)
        return {"weights": 2 * shape.parameters + 4 * learns, "gradients": 4 * learns, "adam": 8 * learns, "cpu": 0}
    count, share = shape.parameters, shape.parameters / layout.trainers
    if layout.sharing == "whole":
        return {"weights": 6 * count, "gradients": 4 * count, "adam": 8 * count, "cpu": 0}
    weights = 2 * count if layout.sharing == "zero2" else 2 * share + 2 * min(count, LIVE)
    adam = {"adam": 0, "cpu": 12 * count} if layout.offload else {"adam": 12 * share, "cpu": 0}
    return {"weights": weights, "gradients": 4 * share, **adam}


def activations(shape: Shape, layout: Layout, work: Work) -> float:
    """Bytes of one backward pass with gradient checkpointing."""
    tokens = work.batch * (work.prompt + work.completion)
    kept = shape.layers * tokens * shape.hidden
    inside = tokens * (6 * shape.hidden + 2 * shape.kv_width + 3 * shape.intermediate)
    head = work.batch * work.completion + (0 if layout.rank else shape.vocabulary)
    return 2.0 * (kept + inside) + 4.0 * head * shape.hidden


def vllm(shape: Shape, layout: Layout, work: Work) -> dict[str, float]:
    """Bytes of vLLM on each of its GPUs: weights, and the cache of all rollouts at once (with less they take turns)."""
    gpus = layout.servers or layout.trainers
    tokens = work.rollouts * (work.prompt + work.completion)
    return {"weights": 2 * shape.parameters, "cache": tokens * shape.kv_bytes / gpus}


def peak(shape: Shape, layout: Layout, work: Work) -> dict[str, float]:
    """Bytes on a training GPU at most: with vLLM there all the time; in turns, where it sleeps while the model learns.

    vLLM is counted with its weights and an eighth of the whole cache: rollouts of a group share their prompt, most end
    early, and those that find no room wait. On GPUs of its own it adds nothing here.
    """
    held, asked = states(shape, layout), vllm(shape, layout, work)
    beside = 0.0 if layout.servers else asked["weights"] + asked["cache"] / 8
    standing = held["weights"] + held["adam"]
    learning = standing + held["gradients"] + activations(shape, layout, work)
    return {"learning": learning, "together": learning + beside, "in turns": max(learning, standing + beside)}


LAYOUTS: Sequence[tuple[str, Layout]] = (
    ("gpu/1-colocate", Layout(1, rank=32)),
    ("gpu/2-colocate", Layout(2, "zero3", offload=True)),
    ("gpu/2-server", Layout(1, rank=32, servers=1)),
    ("gpu/8-colocate", Layout(8, "zero3")),
    ("gpu/8-server", Layout(4, "zero2", servers=4)),
    ("-", Layout(1)),
    ("-", Layout(1, "zero2", offload=True)),
    ("-", Layout(2, "zero3")),
)
"""The shipped configurations (training/configs/gpu), and three that show why they are as they are."""


COLUMNS = (
    *("model", "configuration", "weights", "gradients", "Adam", "activations", "learning"),
    *("vLLM: weights", "whole cache", "together", "in turns", "CPU"),
)


def table(names: Sequence[str]) -> str:
    """The layouts for these models, as markdown; GB (10^9 bytes) on each GPU."""
    lines = [list(COLUMNS), ["---"] * len(COLUMNS)]
    lines += [row(name, title, layout) for name in names for title, layout in LAYOUTS]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def row(name: str, title: str, layout: Layout, work: Work = WORK) -> list[str]:
    """One of them."""
    shape = SHAPES[name]
    held, asked, most = states(shape, layout), vllm(shape, layout, work), peak(shape, layout, work)
    figures = (
        *(held[part] for part in ("weights", "gradients", "adam")),
        *(activations(shape, layout, work), most["learning"]),
        *(asked["weights"], asked["cache"], most["together"], most["in turns"], held["cpu"]),
    )
    return [name.upper(), f"{title}: {layout.name}", *(f"{size / GB:.1f}" for size in figures)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m training.memory", description=__doc__.split(":")[0])
    parser.add_argument("--model", choices=sorted(SHAPES), action="append", help="default: all of them")
    print(table(parser.parse_args(arguments).model or sorted(SHAPES)))


if __name__ == "__main__":
    main()
