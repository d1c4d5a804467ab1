"""A tokenizer and a model from nothing, and a cold start that teaches the format and nothing about workers."""

from collections import Counter
from random import Random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from conductor_plugin.plan import PlanRules, parse_plan, render_plan  # noqa: E402
from tests.training import world  # noqa: E402
from training.cold_start import PHRASES, WHOLE, Examples, cold_start, random_plan  # noqa: E402
from training.grpo import training_pool  # noqa: E402
from training.scratch import make_tokenizer  # noqa: E402

pytestmark = pytest.mark.local
TEXTS = ["question: Is 1234 even, Ünal? 🙂\n", 'model_id = [10]\nsubtasks = ["a \\" b"]\naccess_list = ["all"]']


def test_a_tokenizer_keeps_every_text_and_takes_digits_one_by_one():
    tokenizer = make_tokenizer(TEXTS * 5, 300, WHOLE)
    for text in (*TEXTS, "never seen: çà 字 \t\0 'all' ,, 999"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    tokens = tokenizer.tokenize("1234")
    assert tokens[-4:] == ["1", "2", "3", "4"]


def test_a_tokenizer_is_the_same_whatever_the_order_of_its_texts(tmp_path):
    one, other = make_tokenizer(TEXTS * 3, 320, WHOLE), make_tokenizer(TEXTS[::-1] * 3, 320, WHOLE)
    assert one.backend_tokenizer.to_str() == other.backend_tokenizer.to_str()
    one.save_pretrained(tmp_path)
    from transformers import AutoTokenizer

    saved = AutoTokenizer.from_pretrained(tmp_path)
    assert [saved(text)["input_ids"] for text in TEXTS] == [one(text)["input_ids"] for text in TEXTS]
    assert saved.eos_token_id == one.eos_token_id


def test_a_vocabulary_without_room_for_all_bytes_is_refused():
    with pytest.raises(ValueError, match="at least"):
        make_tokenizer(TEXTS, 100)


def test_a_plan_of_two_steps_is_a_few_tokens():
    plan = render_plan(random_plan(Random(0), 4, 1))
    tokenizer = make_tokenizer([plan], 300, WHOLE)
    assert len(tokenizer(plan)["input_ids"]) <= 9


def test_plans_by_lot_are_valid_and_uniform():
    source, rules = Random(1), PlanRules(workers=4, max_steps=3)
    plans = [parse_plan(render_plan(random_plan(source, 4, 3)), rules) for _ in range(6000)]
    lengths = Counter(map(len, plans))
    workers = Counter(worker for plan in plans for worker in plan.model_id)
    phrases = Counter(text for plan in plans for text in plan.subtasks)
    access = Counter(plan.access_list[1] for plan in plans if len(plan) > 1)
    for counts, size in ((lengths, 3), (workers, 4), (phrases, len(PHRASES)), (access, 3)):
        assert len(counts) == size
        assert max(counts.values()) < 1.15 * min(counts.values())


def config(pool, **changes):
    model = {"kind": "scratch", "scratch": {"hidden": 32, "layers": 1, "heads": 2, "vocabulary": 300}}
    return world.config(pool, model=model, cold_start={"examples": 640, "batch": 32, "lr": 5e-3}, **changes)


def test_a_cold_start_learns_and_can_be_loaded_and_made_again(tmp_path):
    settings = config(world.pool_file(tmp_path), rules={"max_steps": 2})
    asked, losses = list(world.QUESTIONS.values()), []
    folders = [
        cold_start(
            settings, training_pool(settings), asked, tmp_path / name, on_step=lambda _, loss: losses.append(loss)
        )
        for name in ("one", "other")
    ]
    assert losses[:20] == losses[20:]
    assert losses[19] < losses[0] - 1
    weights = [(folder / "model.safetensors").read_bytes() for folder in folders]
    assert weights[0] == weights[1]


def test_a_pretrained_model_gets_an_adapter_that_the_next_run_goes_on_with(tmp_path):
    """The base stays as it is; the adapter has learnt, and GRPO trains it on."""
    from safetensors.torch import load_file

    from training.grpo import train
    from training.models import load_model

    base = world.save_model(tmp_path / "base")
    settings = world.config(
        world.pool_file(tmp_path),
        model={"kind": "pretrained", "name": str(base), "lora": {"r": 4, "alpha": 8}},
        cold_start={"examples": 320, "batch": 32, "lr": 1e-2},
        rules={"max_steps": 2},
    )
    asked, losses = list(world.QUESTIONS.values()), []
    place = cold_start(
        settings, training_pool(settings), asked, tmp_path / "cold", on_step=lambda _, loss: losses.append(loss)
    )
    assert losses[-1] < losses[0]
    assert not (place / "model.safetensors").exists()
    model, _, adapter = load_model(settings, place)
    assert adapter is None
    assert all(("lora" in name) == parameter.requires_grad for name, parameter in model.named_parameters())
    done = train(
        settings,
        tmp_path / "run",
        start=place,
        questions=world.QUESTIONS,
        grader=world.Exact,
        sampler=world.Canned(world.completion(0), world.completion(1)),
    )
    before, after = (load_file(at / "adapter_model.safetensors") for at in (place, tmp_path / "run/model"))
    assert done.status == "finished"
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("instructions", ["phrases", "of the question"])
def test_instructions_are_phrases_or_also_the_questions_own_sentences(tmp_path, instructions):
    asked = world.QUESTIONS["q1"].model_copy(update={"text": "Count 3 and 4. Then double the result. Why?"})
    spec = {"examples": 8, "instructions": instructions}
    settings = world.config(world.pool_file(tmp_path), cold_start=spec, rules={"max_steps": 2})
    _, plans = Examples(settings, training_pool(settings), [asked]).draw(Random(0), 400)
    found = {text for plan in plans for text in parse_plan(plan, PlanRules(workers=2, max_steps=2)).subtasks}
    own = {"Count 3 and 4.", "Then double the result.", "Why?"} if instructions == "of the question" else set()
    assert found == {*PHRASES, *own}
