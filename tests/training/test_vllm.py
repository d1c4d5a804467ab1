"""Sampling by vLLM, through TRL's own interface to it; vLLM itself is a fake (`fake_vllm`), since it needs a GPU."""

import json

import pytest
import yaml

from conductor_plugin.errors import InputError
from tests.training import fake_vllm
from tests.training.world import QUESTIONS, Drawn, Exact, config, pool_file, save_model
from training.arguments import batches, grpo_arguments
from training.config import CONFIGS, load_config
from training.grpo import train
from training.records import read_lines

COLOCATED = {"vllm": "colocate", "memory": 0.4, "sleep": True, "context": 2048}
SERVED = {"vllm": "server", "url": "http://127.0.0.1:8000"}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("start"))


@pytest.fixture
def vllm(monkeypatch):
    """The fake, in the place of TRL's."""
    monkeypatch.setattr("trl.trainer.grpo_trainer.VLLMGeneration", fake_vllm.FakeVLLM)
    monkeypatch.setattr(fake_vllm.FakeVLLM, "off", 0.0)
    return fake_vllm.FakeVLLM


def run(folder, start, generation, sampler=None, **changes):
    grpo = {"iterations": 2, "max_completion_tokens": 6, **changes.pop("grpo", {})}
    settings = config(pool_file(folder), generation=generation, grpo=grpo, **changes)
    finished = train(settings, folder / "run", start=start, questions=QUESTIONS, grader=Exact, sampler=sampler)
    return finished, read_lines(folder / "run/log.jsonl"), read_lines(folder / "run/rollouts.jsonl")


@pytest.mark.parametrize("generation", [COLOCATED, SERVED], ids=["colocate", "server"])
def test_completions_come_from_vllm_with_the_present_weights(tmp_path, start, vllm, generation):
    finished, log, rollouts = run(tmp_path, start, generation)
    engine = fake_vllm.made[-1]
    assert (finished.status, len(rollouts), engine.options["mode"]) == ("finished", 16, generation["vllm"])
    gate, *iterations = engine.calls
    assert (len(gate[0]), [len(prompts) for prompts, _, _ in iterations]) == (4, [8, 8])
    assert {number for _, number, _ in engine.calls} == {1}  # each prompt for itself: second rounds are all different
    assert all(current for _, _, current in engine.calls)
    assert engine.syncs == 2  # the gate's weights are the first iteration's
    for row in log:
        assert row["sampling/sampling_logp_difference/max"] < 1e-4
        assert row["sampling/importance_sampling_ratio/mean"] == pytest.approx(1.0, abs=1e-3)
        assert row["seconds/generate"] > 0
        assert row["seconds/workers"] > 0


def test_what_vllm_says_of_probabilities_reaches_the_loss(tmp_path, start, vllm, monkeypatch):
    monkeypatch.setattr(vllm, "off", 0.5)
    _, log, _ = run(tmp_path, start, COLOCATED, grpo={"iterations": 1})
    assert log[0]["sampling/sampling_logp_difference/mean"] == pytest.approx(0.5, abs=1e-3)
    assert log[0]["sampling/importance_sampling_ratio/max"] < 0.7


def test_second_rounds_are_sampled_by_it_too(tmp_path, start, vllm):
    rules = {"rules": {"max_rounds": 1}, "recursion": {"forced_share": 0.5}}
    finished, _, rollouts = run(tmp_path, start, COLOCATED, Half(), **rules)
    engine = fake_vllm.made[-1]
    assert (finished.status, [row["round"] for row in rollouts[:12]]) == ("finished", [0] * 8 + [1] * 4)
    assert [(len(prompts), number) for prompts, number, _ in engine.calls] == [(4, 1), (4, 1)]


class Half(Drawn):
    """First rounds as canned plans, so that there is something to go on from; what follows from the trainer's own."""

    def __call__(self, prompts, trainer):
        from training.sampled import Sample
        from training.trainer import plain_sampler

        if any("planned:" in prompt for prompt in prompts):
            return plain_sampler(prompts, trainer)
        canned = super().__call__(prompts, trainer)
        certain = [[-0.1] * len(row) for row in canned.completion_ids]
        return Sample(canned.prompt_ids, canned.completion_ids, certain)


def test_a_taped_iteration_is_not_sampled_again(tmp_path, start, vllm, monkeypatch):
    whole, again = tmp_path / "whole", tmp_path / "again"
    for folder in (whole, again):
        folder.mkdir()
    monkeypatch.setattr("training.tape.Tape.forget", lambda self, before: None)
    _, log, rollouts = run(whole, start, COLOCATED, grpo={"save_every": 10})
    tape = {path.name: path.read_text() for path in (whole / "run/tape").iterdir()}
    assert json.loads(tape["000001-0.json"])["logprobs"][0]
    (again / "run/tape").mkdir(parents=True)
    for name, text in tape.items():
        (again / "run/tape" / name).write_text(text)
    _, log_again, rollouts_again = run(again, start, COLOCATED, grpo={"save_every": 10})
    assert len(fake_vllm.made[-1].calls) == 1  # the gate
    assert [row["completion"] for row in rollouts_again] == [row["completion"] for row in rollouts]
    for name in ("loss", "grad_norm", "sampling/importance_sampling_ratio/mean"):
        assert [row[name] for row in log_again] == [row[name] for row in log]


def test_trl_is_told_what_the_configuration_says(tmp_path):
    settings = load_config("paper")
    colocated = settings.model_copy(update={"generation": made({**COLOCATED, "tensor_parallel": 2})})
    told = grpo_arguments(colocated, tmp_path, processes=2)
    assert (told.use_vllm, told.vllm_mode, told.vllm_gpu_memory_utilization) == (True, "colocate", 0.4)
    assert (told.vllm_tensor_parallel_size, told.vllm_enable_sleep_mode, told.vllm_max_model_length) == (2, True, 2048)
    served = grpo_arguments(settings.model_copy(update={"generation": made(SERVED)}), tmp_path)
    assert (served.vllm_mode, served.vllm_server_base_url) == ("server", SERVED["url"])
    assert served.vllm_server_timeout == 600
    assert not grpo_arguments(settings, tmp_path).use_vllm
    with pytest.raises(InputError, match=r"tensor_parallel 2 does not divide the 1 processes"):
        grpo_arguments(colocated, tmp_path, processes=1)


def made(generation):
    return config("embedded", generation=generation).generation


@pytest.mark.parametrize(
    ("generation", "fault", "code", "sentence"),
    [
        (
            COLOCATED,
            ImportError("vLLM is not available"),
            "not_installed",
            "constraints-gpu.txt .* leave generation out",
        ),
        (SERVED, ImportError("vLLM is not available"), "not_installed", "constraints-gpu.txt .* leave generation out"),
        (SERVED, ConnectionError("no"), "generation_unreachable", "no vLLM server at http://127.0.0.1:8000 in 600 s"),
    ],
)
def test_a_vllm_that_is_not_there(tmp_path, monkeypatch, start, generation, fault, code, sentence):
    def refuse(*_, **__):
        raise fault

    monkeypatch.setattr("trl.trainer.grpo_trainer.VLLMGeneration", refuse)
    with pytest.raises(InputError, match=sentence) as caught:
        run(tmp_path, start, generation)
    assert caught.value.code == code


def test_a_model_from_scratch_has_a_sampler_of_its_own(tmp_path):
    content = yaml.safe_load((CONFIGS / "cpu.yaml").read_text())
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**content, "generation": SERVED}))
    with pytest.raises(InputError, match="one from scratch has a sampler of its own"):
        load_config(tmp_path / "mine.yaml")


def test_processes_that_share_a_recursive_run_have_whole_rounds_each():
    recursive = load_config("recursive")
    assert batches(recursive, 2)[0] == 24
    with pytest.raises(InputError, match="whole questions, and forced ones, in each of the 4 processes"):
        batches(recursive, 4)
