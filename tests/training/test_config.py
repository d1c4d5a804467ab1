"""Configurations: the shipped ones, faults named with their place, and TRL's resolved arguments against the paper."""

import pytest
import yaml

from conductor_plugin.errors import InputError
from training.arguments import batches, grpo_arguments
from training.config import CONFIGS, load_config
from training.grpo import training_pool

# The paper, "Training".
PAPER = {
    "num_generations": 64,
    "max_steps": 200,
    "max_completion_length": 1024,
    "temperature": 1.0,
    "learning_rate": 1e-6,
    "lr_scheduler_type": "cosine",
    "warmup_steps": 0.03,  # below 1 it is a ratio
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "beta": 0.0,
    "epsilon": 0.2,
    "epsilon_high": None,
    "loss_type": "grpo",
    "scale_rewards": "group",
    "sync_ref_model": False,
    "num_iterations": 1,
    "top_p": 1.0,
    "top_k": 0,
    "entropy_coef": 0.0,
    "mask_truncated_completions": False,
}


def test_the_resolved_arguments_are_the_papers(tmp_path):
    arguments = grpo_arguments(load_config("paper"), tmp_path)
    assert {name: getattr(arguments, name) for name in PAPER} == PAPER
    assert arguments.optim == "adamw_torch"
    assert arguments.get_warmup_steps(200) == 6


def test_one_optimiser_step_is_four_questions_of_64_rollouts(tmp_path):
    arguments = grpo_arguments(load_config("paper"), tmp_path)
    completions = arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size
    assert completions == arguments.generation_batch_size == 256
    assert arguments.generation_batch_size // arguments.num_generations == 4
    # One generation for one update: nothing is off-policy.
    assert arguments.steps_per_generation == arguments.gradient_accumulation_steps


def test_the_recipes_questions_and_stages():
    paper, recursive = load_config("paper"), load_config("recursive")
    assert sum(one.limit for one in paper.questions) == 960
    assert next(one.limit for one in paper.questions if one.name == "math500") == 300
    assert sum(one.limit for one in recursive.questions) == 350
    assert (recursive.grpo.iterations, recursive.forced, recursive.groups) == (20, 2, 6)
    assert recursive.recursion.first_round_weight == 0.25
    assert load_config("lora").model.lora.r == 32
    assert load_config("adaptive").subsets.largest == 7
    cpu = load_config("cpu")
    assert (cpu.gate.refuse, cpu.gate.parse_rate, paper.gate.refuse) == (True, 0.95, False)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_configuration_fits_together(path):
    config = load_config(path)
    assert batches(config, 1)[0] >= 1


def test_batches_come_out_over_processes_and_with_spare_groups():
    paper = load_config("paper")
    assert batches(paper, 1) == (32, 8)
    assert batches(paper, 2) == (16, 8)
    spare = paper.model_copy(update={"sampling": paper.sampling.model_copy(update={"spare": 2})})
    assert batches(spare, 1) == (32, 12)  # 6 groups are read, 4 of them kept
    with pytest.raises(InputError, match=r"grpo\.batch 8 on 3 processes does not divide"):
        batches(paper, 3)
    with pytest.raises(InputError, match="one process"):
        batches(spare, 2)


COLOCATED = {"vllm": "colocate", "memory": 0.4}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"grpo": {"lr": "fast"}}, "grpo.lr: input should be a valid number"),
        ({"grpo": {"learning_rate": 1}}, "grpo.learning_rate is no setting of a training run"),
        ({"grpo": {"rollouts": 1}}, "grpo.rollouts: input should be greater than or equal to 2"),
        (
            {"model": {"kind": "scratch", "scratch": None}},
            "model: scratch: {hidden, layers, heads",
        ),
        ({"recursion": {}}, "recursion needs rules.max_rounds of at least 1"),
        ({"questions": []}, "questions: tuple should have at least 1 item"),
        ({"questions": [{"limit": 3}]}, "questions.0: a set has a name"),
        ({"subsets": {"smallest": 3, "largest": 2}}, "subsets: smallest is above largest"),
        ({"guard": {"parse_rate": 2}}, "guard.parse_rate: input should be less than or equal to 1"),
        ({"grpo": None}, "grpo must be a mapping of keys to values"),
        ({"grpo": {"iterations": "5"}}, "grpo.iterations: input should be a valid integer"),
        ({"grpo": {"seed": True}}, "grpo.seed: input should be a valid integer"),
        ({"grpo": {"bf16": "no"}}, "grpo.bf16: input should be a valid boolean"),
        ({"gate": {"samples": True}}, "gate.samples: input should be a valid integer"),
        ({"generation": True}, "generation must be a mapping of keys to values"),
        ({"generation": {}}, "generation.vllm must be colocate or server"),
        ({"generation": {"vllm": "both"}}, "generation.vllm must be colocate or server"),
        ({"generation": {"vllm": "colocate"}}, "generation.memory is missing"),
        ({"generation": COLOCATED | {"memory": 40}}, "generation.memory: input should be less than 1"),
        ({"generation": COLOCATED | {"url": "http://h"}}, "generation.url is no setting of a training run"),
        ({"generation": COLOCATED | {"sleep": "no"}}, "generation.sleep: input should be a valid boolean"),
        ({"generation": COLOCATED | {"tensor_parallel": True}}, "generation.tensor_parallel: input should be a valid"),
        ({"generation": COLOCATED | {"context": 1024}}, "generation.context 1024 leaves no room for a prompt beside"),
        ({"generation": {"vllm": "server", "url": "127.0.0.1:8000"}}, "generation.url: it must be an address with"),
        ({"generation": {"vllm": "server", "url": "http://h:99999"}}, "generation.url: it must be an address with"),
        ({"generation": {"vllm": "server", "url": "http://h/v1"}}, "generation.url: it must be the server's address"),
        (
            {"generation": {"vllm": "server", "url": "http://h:51216"}},
            "generation: group_port 51216 is the server's own; choose another",
        ),
    ],
)
def test_a_fault_is_one_sentence_with_its_place(tmp_path, change, sentence):
    content = yaml.safe_load((CONFIGS / "paper.yaml").read_text())
    for key, value in change.items():
        content[key] = {**content[key], **value} if isinstance(value, dict) and key in content else value
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert caught.value.code == "config_bad"
    assert f"{path}: {sentence}" in str(caught.value)


def test_a_name_that_is_not_there_lists_those_that_are():
    with pytest.raises(InputError, match=r"there are adaptive, cpu, gpu/1-colocate, .*, lora, paper, recursive"):
        load_config("papers")
    with pytest.raises(InputError, match="cannot read the configuration"):
        load_config("nowhere.yaml")


def test_a_key_that_is_missing_is_named_with_what_a_configuration_has_against_it(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(InputError, match=r"ANTHROPIC_API_KEY, which is not set; export it, .* configuration's `only`"):
        training_pool(load_config("gpu/2-server"))
