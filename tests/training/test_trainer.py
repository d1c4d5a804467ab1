"""The trainer: TRL's own steps, with second rounds, spare groups, the tape, and early scoring where asked for."""

import json
import shutil

import pytest
import torch
from datasets import Dataset
from trl import GRPOTrainer

from tests.training.world import QUESTIONS, Canned, Drawn, Exact, completion, config, pool_file, save_model
from training.arguments import grpo_arguments
from training.grpo import train
from training.models import load_model
from training.questions import rows
from training.trainer import ConductorTrainer

RIGHT, WRONG, LATE = completion(0), completion(1), completion(1, 0)
KEEP = "model_id=[]\nsubtasks=[]\naccess_list=[]"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("start"))


def run(config, folder, start, sampler, **options):
    finished = train(config, folder / "run", start=start, questions=QUESTIONS, grader=Exact, sampler=sampler, **options)
    return finished, lines(folder / "run/log.jsonl"), lines(folder / "run/rollouts.jsonl")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def weights(path):
    from safetensors.torch import load_file

    return load_file(path / "model.safetensors")


@pytest.fixture
def advantages(monkeypatch):
    """Those of every backward pass, with the completion's tokens."""
    seen = []
    compute = ConductorTrainer._compute_loss

    def spy(self, model, inputs):
        seen.extend(zip(self.texts(inputs["completion_ids"]), inputs["advantages"].tolist(), strict=True))
        return compute(self, model, inputs)

    monkeypatch.setattr(ConductorTrainer, "_compute_loss", spy)
    return seen


def test_a_run_trains_logs_and_saves(tmp_path, start):
    steps = []
    settings = config(pool_file(tmp_path))
    finished, log, rollouts = run(settings, tmp_path, start, Drawn(), on_step=lambda step, _: steps.append(step))
    assert (finished.status, finished.step, steps) == ("finished", 2, [1, 2])
    assert [row["step"] for row in log] == [1, 2]
    assert len(rollouts) == 2 * 2 * 4
    assert {row["reward"] for row in rollouts} == {0.5, 1.0}
    assert log[0]["reward_mean"] == pytest.approx(sum(row["reward"] for row in rollouts[:8]) / 8)
    before, after = weights(start), weights(tmp_path / "run/model")
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_groups_at_once_change_nothing_but_when_workers_are_asked(tmp_path, start):
    found = []
    for at_once in (None, 1):
        folder = tmp_path / str(at_once)
        folder.mkdir()
        sampler = Canned(RIGHT, WRONG, LATE, "nonsense")
        _, _, rollouts = run(config(pool_file(folder), sampling={"at_once": at_once}), folder, start, sampler)
        found.append([(row["place"], row["completion"], row["reward"]) for row in rollouts])
    assert found[0] == found[1]
    assert [reward for _, _, reward in found[0][:4]] == [1.0, 0.5, 1.0, 0.0]


def recursive(folder, share):
    return config(
        pool_file(folder),
        rules={"max_rounds": 1},
        recursion={"forced_share": share, "first_round_weight": 0.25},
        grpo={"iterations": 1},
    )


def test_a_second_round_is_shown_its_own_first(tmp_path, start):
    first = [WRONG, LATE, RIGHT, "nonsense"]
    sampler = Canned(*[RIGHT] * 4, *first, *first, RIGHT, KEEP, KEEP)  # the gate's samples come before
    _, _, rollouts = run(recursive(tmp_path, 0.5), tmp_path, start, sampler)
    assert [row["round"] for row in rollouts] == [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    shown = [prompt for prompt in sampler.prompts if "planned:" in prompt]
    wanted = ("planned: [1, 2]", "planned: [1, 0, 2]", "planned: [0, 2]")  # as if each had ended with the Conductor
    assert [plan in prompt for plan, prompt in zip(wanted, shown, strict=False)] == [True] * 3
    assert "output 0: no" in shown[0]  # the response so far
    second = rollouts[8:]
    assert [(row["reward"], row["error"]) for row in second[:3]] == [(1.0, None)] * 3  # kept answers that were right
    assert (second[3]["reward"], second[3]["error"]) == (None, "no_first_round")


def test_rounds_are_normalised_alone_and_the_first_weighs_a_quarter(tmp_path, start, advantages):
    first = [WRONG, WRONG, RIGHT, RIGHT]
    # The wrong answers are corrected, the right ones lost: the rounds' advantages are opposite, not mixed.
    again = [completion(0, subtask="again")] * 2 + [completion(1, subtask="again")] * 2
    run(recursive(tmp_path, 1.0), tmp_path, start, Canned(*[RIGHT] * 4, *first, *first, *again, *again))
    told = {text: round(value, 2) for text, value in advantages}
    whole = 0.25 / 0.28868  # half a group of four above its mean, in deviations of the sample
    assert told[again[0]] == pytest.approx(whole, abs=0.01)
    assert told[again[2]] == pytest.approx(-whole, abs=0.01)
    assert told[RIGHT] == pytest.approx(0.25 * whole, abs=0.01)
    assert told[WRONG] == pytest.approx(-0.25 * whole, abs=0.01)


def test_spare_groups_replace_those_that_score_alike(tmp_path, start, advantages):
    dead, alive = [WRONG] * 4, [RIGHT, WRONG, WRONG, WRONG]
    settings = config(pool_file(tmp_path), sampling={"spare": 1}, grpo={"iterations": 1})
    run(settings, tmp_path, start, Canned(*[RIGHT] * 4, *dead, *alive, *alive))
    assert len(advantages) == 8
    assert sorted(text == RIGHT for text, _ in advantages) == [False] * 6 + [True] * 2


def test_the_first_iterations_compare_plans_of_one_length(tmp_path, start, advantages):
    """The long plan is right and so is one of the short ones: the long one has nothing to be compared with, until."""
    long, broken = completion(1, 0), RIGHT.replace("access_list", "nothing")
    settings = config(pool_file(tmp_path), grpo={"by_length": 1})
    run(settings, tmp_path, start, Canned(RIGHT, WRONG, long, broken))
    at_first, later = advantages[:8], advantages[8:]
    assert {text for text, _ in at_first} == {RIGHT, WRONG, long, broken}
    assert all(value == 0 for text, value in at_first if text == long)
    assert all(value > 0 for text, value in later if text == long)
    assert all(value < 0 for text, value in at_first if text == broken)


def test_without_hooks_it_is_trls_own_training(tmp_path, start):
    """Three steps of plain GRPOTrainer and of ours: the same completions, rewards and weights."""
    settings = config(pool_file(tmp_path), grpo={"iterations": 3})
    seen: dict[str, list] = {"plain": [], "ours": []}

    def length(who):
        def reward(completions, **_):
            seen[who] += completions
            return [len(text) / 100 for text in completions]

        return reward

    def trainer(who, kind, **extra):
        model, tokenizer, _ = load_model(settings, start)
        return kind(
            model=model,
            processing_class=tokenizer,
            reward_funcs=[length(who)],
            train_dataset=Dataset.from_list(rows(settings, extra.pop("pool"), QUESTIONS)),
            args=grpo_arguments(settings, tmp_path / who),
            **extra,
        )

    from training.grpo import make_rewarder, training_pool
    from training.tape import Tape

    pool = training_pool(settings)
    plain = trainer("plain", GRPOTrainer, pool=pool)
    plain.train()
    rewarder = make_rewarder(settings, pool, QUESTIONS, tmp_path, Exact)
    ours = trainer(
        "ours", ConductorTrainer, pool=pool, config=settings, rewarder=rewarder, tape=Tape(tmp_path / "tape")
    )
    ours.train()
    assert seen["plain"] == seen["ours"]
    assert [row["grad_norm"] for row in plain.state.log_history[:3]] == [
        row["grad_norm"] for row in ours.state.log_history[:3]
    ]
    for before, after in zip(plain.model.parameters(), ours.model.parameters(), strict=True):
        assert torch.equal(before, after)


def test_a_low_rank_adapter_is_all_that_is_trained_and_saved(tmp_path, start):
    lora = {"kind": "pretrained", "name": "given", "lora": {"r": 2, "alpha": 4}}
    finished, _, _ = run(config(pool_file(tmp_path), model=lora), tmp_path, start, Drawn())
    assert finished.status == "finished"
    assert (tmp_path / "run/model/adapter_model.safetensors").exists()
    assert not (tmp_path / "run/model/model.safetensors").exists()


def test_a_batch_that_nobody_could_answer_teaches_nothing(tmp_path, start):
    """Every reward is None: no advantage, no step, and the guard counts them."""
    settings = config(pool_file(tmp_path, workers=("echo", "lost")), grpo={"iterations": 1})
    finished, log, rollouts = run(settings, tmp_path, start, Canned(WRONG))
    assert (finished.status, log[0]["failed_share"], log[0]["grad_norm"]) == ("finished", 1.0, 0.0)
    assert {row["reward"] for row in rollouts} == {None}
    before, after = weights(start), weights(tmp_path / "run/model")
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_finished_run_has_nothing_left_to_do(tmp_path, start):
    settings, sampler = config(pool_file(tmp_path), grpo={"iterations": 1}), Drawn()
    first, _, rollouts = run(settings, tmp_path, start, sampler)
    asked = len(sampler.prompts)
    assert run(settings, tmp_path, start, sampler)[::2] == (first, rollouts)
    assert len(sampler.prompts) == asked


def test_a_chat_model_is_asked_with_the_whole_prompt(tmp_path, start):
    """Through its chat template, sampled by TRL: what it writes is scored, valid or not."""
    from transformers import AutoTokenizer

    folder = tmp_path / "chat"
    shutil.copytree(start, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
    tokenizer.save_pretrained(folder)
    grpo = {"iterations": 1, "max_completion_tokens": 6}
    settings = config(pool_file(tmp_path), prompt={"style": "conductor", "few_shot": "none"}, grpo=grpo)
    finished, log, rollouts = run(settings, tmp_path, folder, None)
    assert (finished.status, log[0]["parse_rate"], len(rollouts)) == ("finished", 0.0, 8)
    assert log[0]["num_tokens"] > 8 * 1000  # the prompt, a token a byte
