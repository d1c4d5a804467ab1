"""The files for GPUs: TRL takes the arguments, accelerate its files, and DeepSpeed's have what accelerate fills in."""

import dataclasses
import json
import re

import pytest
from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file
from trl import GRPOConfig

from conductor_plugin.errors import InputError
from training.arguments import batches, grpo_arguments
from training.config import CONFIGS, load_config
from training.generation import vllm_arguments
from training.supervise import ACCELERATE, StageOptions, accelerate_file, stage_command

RUNS = sorted((CONFIGS / "gpu").glob("*.yaml"))
FILES = sorted(ACCELERATE.glob("*.yaml"))
ROOT = CONFIGS.parents[1]


def launched_by(path):
    """The accelerate file that the configuration names in its comment."""
    return accelerate_file(re.search(r"^# accelerate: (\S+)$", path.read_text(), re.M)[1])


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_trl_takes_every_argument_of_a_shipped_configuration(path, tmp_path, monkeypatch):
    config = load_config(path)
    processes = load_config_from_file(str(launched_by(path))).num_processes
    monkeypatch.setattr(GRPOConfig, "world_size", property(lambda self: processes))
    told = vllm_arguments(config.generation, processes)
    assert set(told) <= {field.name for field in dataclasses.fields(GRPOConfig)}
    arguments = grpo_arguments(config, tmp_path, processes=processes)
    assert {name: getattr(arguments, name) for name in told} == told
    backward, rows = batches(config, processes)
    assert backward * rows * processes == 256


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_it_is_the_recipe_but_for_where_it_runs(path):
    config = load_config(path)
    recipe = load_config("lora" if config.model.lora else "paper")
    assert config.model_copy(update={"generation": None}) == recipe
    gpus = int(path.stem[0])
    processes = load_config_from_file(str(launched_by(path))).num_processes
    assert processes == gpus if config.generation.vllm == "colocate" else processes == gpus // 2


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_accelerate_takes_its_files(path):
    read = load_config_from_file(str(path))
    assert isinstance(read, ClusterConfig)
    assert read.num_processes == int(path.stem[0])
    deepspeed = read.distributed_type.value == "DEEPSPEED"
    assert deepspeed == ("zero" in path.stem)
    if deepspeed:
        plugin, file = read.deepspeed_config, ROOT / read.deepspeed_config["deepspeed_config_file"]
        stage = json.loads(file.read_text())["zero_optimization"]["stage"]
        assert f"zero{stage}" in path.stem
        assert plugin["zero3_init_flag"] == (stage == 3)
        # What stands in DeepSpeed's file may not stand here, too: accelerate refuses it.
        assert set(plugin) == {"deepspeed_config_file", "zero3_init_flag"}
        assert read.mixed_precision is None


ZERO = pytest.mark.parametrize("path", sorted(ACCELERATE.glob("*.json")), ids=lambda path: path.stem)


@ZERO
def test_accelerate_reads_deepspeeds_files(path):
    from accelerate import DeepSpeedPlugin

    read = DeepSpeedPlugin(hf_ds_config=str(path))
    assert read.zero_stage == int(re.search(r"zero-(\d)", path.stem)[1])
    # Dozens of backward passes are added up for one step, of which bfloat16 would lose the small ones.
    assert read.hf_ds_config.get_value("data_types.grad_accum_dtype") == "fp32"
    assert read.offload_optimizer_device == ("cpu" if "offload" in path.stem else "none")
    # Else `save_model` would leave shares that nobody can load.
    assert read.zero3_save_16bit_model or read.zero_stage < 3


@ZERO
def test_deepspeeds_files_leave_to_the_run_what_is_the_runs(path):
    """`HfTrainerDeepSpeedConfig` fills in the autos from TRL's arguments and the model, and leaves none."""
    pytest.importorskip("deepspeed", reason="the extra [gpu]")
    from transformers import Qwen2Config
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

    content = json.loads(path.read_text())
    read = HfTrainerDeepSpeedConfig(content)
    arguments = grpo_arguments(load_config("paper"), path.parent)
    read.trainer_config_process(arguments)
    read.trainer_config_finalize(arguments, _Model(Qwen2Config(hidden_size=64)), 200)
    assert read.config["train_micro_batch_size_per_gpu"] == 8
    assert read.config["gradient_accumulation_steps"] == 32
    assert read.config["gradient_clipping"] == arguments.max_grad_norm
    assert read.config["bf16"]["enabled"] is True
    assert "auto" not in json.dumps(read.config)


class _Model:
    def __init__(self, config):
        self.config = config


def test_the_stage_is_launched_with_the_file(tmp_path):
    options = StageOptions(config="gpu/2-colocate", folder=str(tmp_path), accelerate="2-gpus-zero3-offload")
    command = stage_command("grpo", options)
    at = command.index("--config_file")
    assert command[1 : at + 2] == [
        *("-m", "accelerate.commands.launch", "--config_file", str(ACCELERATE / "2-gpus-zero3-offload.yaml"))
    ]
    assert "--num_processes" not in command
    assert command[at + 2 : at + 5] == ["-m", "training.stage_process", "grpo"]
    more = stage_command("grpo", options.model_copy(update={"accelerate": "2-gpus", "processes": 4}))
    assert more[more.index("--num_processes") + 1] == "4"
    assert "accelerate.commands.launch" not in stage_command("evaluate", options)
    assert stage_command("grpo", options.model_copy(update={"accelerate": "1-gpu"})).count("--config_file") == 1


def test_accelerate_reads_our_command_as_it_is_meant(tmp_path):
    """Its own parser: nothing of the stage's is taken for an option of accelerate."""
    from accelerate.commands.launch import launch_command_parser

    options = StageOptions(config="paper", folder=str(tmp_path), accelerate="8-gpus-zero3")
    command = stage_command("grpo", options)
    read = launch_command_parser().parse_args(command[3:])
    assert (read.module, read.training_script) == (True, "training.stage_process")
    assert StageOptions.model_validate_json(read.training_script_args[1]) == options


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="no accelerate file '3-gpus'; there are 1-gpu, 2-gpus, ") as caught:
        accelerate_file("3-gpus")
    assert caught.value.code == "accelerate_unknown"
    (tmp_path / "mine.yaml").write_text("")
    assert accelerate_file(str(tmp_path / "mine.yaml")) == tmp_path / "mine.yaml"
