"""A training run as one YAML file: read strictly, every value checked, no setting that the run does not use.

`load_config("cpu")` reads training/configs/cpu.yaml; a path reads that file.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from conductor_plugin.errors import InputError
from conductor_plugin.models import Frozen
from conductor_plugin.planners.manifest import PromptSettings
from conductor_plugin.pool_values import Whole
from conductor_plugin.yaml_file import Unreadable, read_yaml
from training.generation import Colocated, Served
from training.lesson import Lesson
from training.values import Count, Flag, Rate, Share, Weight

CONFIGS = Path(__file__).parent / "configs"


class Lora(Frozen):
    """A low-rank adapter on the linear layers named in `targets` ("all-linear": on all but the head)."""

    r: Count
    alpha: Count
    targets: str | tuple[str, ...] = "all-linear"


class Scratch(Frozen):
    """The size of a Llama that is made from nothing, and of its tokenizer's vocabulary."""

    hidden: Count
    layers: Count
    heads: Count
    vocabulary: Count


class ModelSpec(Frozen):
    """Which model learns: `pretrained` by its hub `name` or folder, or one made from `scratch`.

    `dtype` is that of the weights. In bfloat16 an update of 1e-6 is lost: the recipe keeps float32 weights and
    computes in bfloat16 (`grpo.bf16`).
    """

    kind: Literal["pretrained", "scratch"]
    name: str | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    scratch: Scratch | None = None
    lora: Lora | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> "ModelSpec":
        if self.kind == "pretrained" and not self.name:
            raise ValueError("kind pretrained needs a name: of the hub, or of a folder")
        if (self.kind == "scratch") != (self.scratch is not None):
            raise ValueError("scratch: {hidden, layers, heads, vocabulary} belongs to kind scratch, and to no other")
        return self


class QuestionSet(Frozen):
    """Questions of one benchmark (`name`), or of a feedback export (`file`).

    `limit` are trained on, the next `held_out` in the seed's order never; either may be 0.
    """

    name: str | None = None
    file: str | None = None
    data: str | None = None
    limit: Annotated[Whole, Field(ge=0)]
    held_out: Annotated[Whole, Field(ge=0)] = 0
    seed: Whole = 0

    @model_validator(mode="after")
    def _has_one_source(self) -> "QuestionSet":
        if (self.name is None) == (self.file is None):
            raise ValueError("a set has a name (of a benchmark) or a file (of feedback), and not both")
        if self.limit + self.held_out < 1:
            raise ValueError("a set without a limit and without held_out has no questions")
        return self


class Rules(Frozen):
    """What a plan may hold; `max_rounds` counts the rounds after the first, as everywhere."""

    max_steps: Annotated[Whole, Field(ge=1, le=100)] = 5
    max_rounds: Annotated[Whole, Field(ge=0, le=10)] = 0


PLANS_A_PROMPT = 8
"""Plans of the cold start that share a prompt, which then goes through the model once."""


class ColdStart(Frozen):
    """Supervised learning of the format alone, on `examples` made-up plans.

    Their instructions are drawn from a few `phrases` that fit any question, or from these and the sentences `of the
    question`, for a model that can write some of its own.
    """

    examples: Count
    epochs: Count = 1
    lr: Rate = 1e-3
    batch: Annotated[Whole, Field(ge=1, multiple_of=PLANS_A_PROMPT)] = 32
    instructions: Literal["phrases", "of the question"] = "phrases"
    seed: Whole = 0


class Gate(Frozen):
    """The parse rate of `samples` completions that GRPO starts from, for every plan length; else it refuses, or warns.

    Below about 0.9 a step the gap between 0 and 0.5 teaches short plans before accuracy speaks.
    """

    parse_rate: Share = 0.95
    samples: Count = 256
    refuse: Flag = True


class Grpo(Frozen):
    """One iteration is `questions` x `rollouts` completions and one optimiser step. Paper, "Training".

    In the first `by_length` iterations a plan is compared with those of its length alone, see `advantage`.
    """

    iterations: Count
    questions: Count
    rollouts: Annotated[Whole, Field(ge=2)]
    lr: Rate
    schedule: Literal["cosine", "constant", "linear"] = "cosine"
    warmup_ratio: Share = 0.03
    betas: tuple[Share, Share] = (0.9, 0.999)
    beta: Weight = 0.0
    clip: Rate = 0.2
    temperature: Rate = 1.0
    max_completion_tokens: Count = 1024
    entropy_bonus: Weight = 0.0
    by_length: Annotated[Whole, Field(ge=0)] = 0
    seed: Whole = 0
    bf16: Flag = False
    gradient_checkpointing: Flag = False
    batch: Count = 8
    """Completions of one backward pass on one device; the gradients of an iteration are added up."""
    save_every: Count = 10


class RewardSpec(Frozen):
    """What is taken off a right answer's reward of 1, which stays at 0.5 at least: for each call, USD and second.

    `label_violation: format` offers all workers on a labelled question, and a plan that shows one more than its
    clearance allows earns 0 unrun. Otherwise such workers are not offered, as at inference.
    """

    call_weight: Weight = 0.0
    cost_weight: Weight = 0.0
    latency_weight: Weight = 0.0
    label_violation: Literal["format"] | None = None


class Recursion(Frozen):
    """Second rounds are forced on `forced_share` of an iteration's questions; their first rounds weigh less."""

    forced_share: Share = 0.5
    first_round_weight: Share = 0.25


class Subsets(Frozen):
    """Each question is asked with a random subset of so many workers, renumbered (paper, "Adaptive pools")."""

    smallest: Count
    largest: Count

    @model_validator(mode="after")
    def _in_order(self) -> "Subsets":
        if self.smallest > self.largest:
            raise ValueError("smallest is above largest")
        return self


class Thresholds(Frozen):
    """Where a run pauses, see `guard`; None: never. Each is looked at over the last `window` iterations."""

    parse_rate: Share | None = None
    worker_entropy: Share | None = None
    one_step_share: Share | None = None
    dead_groups: Share | None = None
    failed_share: Share | None = 0.5
    window: Count = 5


class Sampling(Frozen):
    """`screen`: so many rollouts a question before the start; those whose valid plans all score alike are left out.

    `spare`: so many more questions an iteration, whose groups replace those that all score alike (dynamic sampling).
    `at_once`: so many groups are sampled in one go, and their workers asked while the next ones are sampled; None: all
    groups are sampled before the first worker is asked.
    """

    screen: Annotated[Whole, Field(ge=2)] | None = None
    spare: Annotated[Whole, Field(ge=0)] = 0
    at_once: Count | None = None


class TrainConfig(Frozen):
    """A whole run. `pool` is a pool file or `embedded`; `only` leaves workers out; `budget_usd` caps all resumes.

    GRPO is one run, or with `lessons` several, which share its iterations (`training.learn`; not `conductor train`).
    `generation` says which vLLM samples; without one the model itself does, by `generate`.
    """

    model: ModelSpec
    pool: str = "embedded"
    only: tuple[str, ...] = ()
    questions: Annotated[tuple[QuestionSet, ...], Field(min_length=1)]
    prompt: PromptSettings = PromptSettings()
    rules: Rules = Rules()
    cold_start: ColdStart | None = None
    gate: Gate = Gate()
    grpo: Grpo
    lessons: tuple[Lesson, ...] = ()
    reward: RewardSpec = RewardSpec()
    recursion: Recursion | None = None
    subsets: Subsets | None = None
    guard: Thresholds = Thresholds()
    sampling: Sampling = Sampling()
    generation: Annotated[Colocated | Served, Field(discriminator="vllm")] | None = None
    budget_usd: Rate | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainConfig":
        if self.recursion and not self.rules.max_rounds:
            raise ValueError("recursion needs rules.max_rounds of at least 1")
        if self.recursion and self.sampling.spare:
            raise ValueError("sampling.spare and recursion exclude each other: a second round belongs to its first")
        if len({lesson.name for lesson in self.lessons}) < len(self.lessons):
            raise ValueError("each of the lessons needs a name of its own")
        if self.generation and self.model.kind == "scratch":
            raise ValueError("generation is for a pretrained model; one from scratch has a sampler of its own")
        context, longest = getattr(self.generation, "context", None), self.grpo.max_completion_tokens
        if context is not None and context <= longest:
            raise ValueError(
                f"generation.context {context} leaves no room for a prompt beside the {longest} tokens of "
                "grpo.max_completion_tokens"
            )
        return self

    @property
    def forced(self) -> int:
        """How many of an iteration's questions get a second round."""
        return round(self.recursion.forced_share * self.grpo.questions) if self.recursion else 0

    @property
    def groups(self) -> int:
        """Groups of rollouts that an iteration samples: one a question, one a forced second round, the spare ones."""
        return self.grpo.questions + self.forced + self.sampling.spare


def check_one_run(config: TrainConfig) -> None:
    """InputError `has_lessons` where a configuration wants several runs of one that makes one."""
    if config.lessons:
        raise InputError(
            "the configuration has lessons, on questions of training/families.py: `python -m training.learn --config "
            "NAME` teaches them; to train on `questions` in one run, leave `lessons` out",
            code="has_lessons",
        )


def load_config(source: str | Path) -> TrainConfig:
    """The configuration in a file, or the shipped one of that name. InputError `config_unreadable`, `config_bad`."""
    path = Path(source)
    if path.suffix not in (".yaml", ".yml"):
        path = CONFIGS / f"{source}.yaml"
        if not path.exists():
            known = ", ".join(sorted(str(p.relative_to(CONFIGS).with_suffix("")) for p in CONFIGS.rglob("*.yaml")))
            raise InputError(
                f"there is no configuration {str(source)!r}; there are {known}, or give a .yaml file",
                code="config_unreadable",
            )
    try:
        content = read_yaml(path)
    except Unreadable as error:
        raise InputError(f"cannot read the configuration {path}{error}", code="config_unreadable") from None
    try:
        return TrainConfig.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{path}: {_explain(error)}", code="config_bad") from None


def _explain(error: ValidationError) -> str:
    """The place and the sentence of the first thing that is wrong."""
    first = error.errors()[0]
    # `generation` is one of two kinds, and pydantic puts the kind into the place.
    loc = [part for i, part in enumerate(first["loc"]) if (i, first["loc"][0]) != (1, "generation")]
    place = ".".join(str(part) for part in loc)
    match first["type"]:
        case "extra_forbidden":
            return f"{place} is no setting of a training run"
        case "missing":
            return f"{place} is missing"
        case "union_tag_not_found" | "union_tag_invalid":
            return f"{place}.vllm must be colocate or server"
        case "model_type" | "dict_type" | "model_attributes_type":
            return f"{place or 'a configuration'} must be a mapping of keys to values"
        case "value_error":
            sentence = str(first["ctx"]["error"])
        case _:
            sentence = first["msg"]
    sentence = f"{sentence[0].lower()}{sentence[1:]}"
    return f"{place}: {sentence}" if place else sentence
