"""What is rehearsed of the cold start: the tokens that a stage is not about, of plans that a resume draws again."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from tests.training import world  # noqa: E402
from tests.training.test_cold_start import config  # noqa: E402
from training.cold_start import Examples, cold_start  # noqa: E402
from training.grpo import train, training_pool  # noqa: E402
from training.rehearsal import Rehearsal, workers_of  # noqa: E402

pytestmark = pytest.mark.local
PLAN = 'model_id = [1, 0]\nsubtasks = ["", "Go on."]\naccess_list = [[], [0]]'


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A cold start, its settings, and the model and tokenizer in it."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("start")
    settings = config(world.pool_file(folder), rules={"max_steps": 2})
    place = cold_start(settings, training_pool(settings), list(world.QUESTIONS.values()), folder / "cold")
    return settings, place, AutoModelForCausalLM.from_pretrained(place), AutoTokenizer.from_pretrained(place)


def examples_of(settings):
    return Examples(settings, training_pool(settings), list(world.QUESTIONS.values()))


def rehearsal(settings, kept):
    return Rehearsal(examples_of(settings), kept)


@pytest.mark.parametrize(
    ("kept", "texts", "more"),
    [
        ("length", [", ", "]\nsubtasks = ["], False),
        ("workers but the first", [", ", "0", "]\nsubtasks = ["], False),
        ("all but the first worker", ["model_id = [", ", ", "0", "]\nsubtasks = ["], True),
    ],
)
def test_which_tokens_are_rehearsed(start, kept, texts, more):
    settings, _, _, tokenizer = start
    ids = torch.tensor([tokenizer(PLAN)["input_ids"]])
    [chosen] = rehearsal(settings, kept).chosen(*workers_of(ids, tokenizer))
    found = [tokenizer.decode([token]) for token, is_chosen in zip(ids[0], chosen, strict=True) if is_chosen]
    assert found[: len(texts)] == texts
    assert len(found) == (ids.shape[1] - 1 if more else len(texts))


@pytest.fixture(scope="module")
def smollm2s():
    """The tokenizer of a pretrained model, whose file takes long to read."""
    from transformers import AutoTokenizer

    from conductor_plugin.workers.local import weights

    return AutoTokenizer.from_pretrained(weights())


@pytest.mark.parametrize(
    ("plan", "first", "ends"),
    [
        (PLAN, ["1"], [",", "]"]),
        ('model_id = [2]\nsubtasks = ["é [9] 数"]\naccess_list = [[]]', ["2"], ["]"]),
        ("model_id = []\nsubtasks = []\naccess_list = []", [" []"], [" []"]),
    ],
)
def test_a_pretrained_models_tokens_are_cut_otherwise(smollm2s, plan, first, ends):
    ids = torch.tensor([smollm2s(plan)["input_ids"] + [0, 0]])
    found = [[smollm2s.decode([t]) for t in ids[0][chosen[0]]] for chosen in workers_of(ids, smollm2s)]
    assert found == [first, ends]


def test_the_plans_of_an_iteration_are_the_same_again(start):
    settings, _, model, tokenizer = start
    losses = [rehearsal(settings, "length").loss(model, tokenizer, i).item() for i in (0, 1, 0)]
    assert losses[0] == losses[2] != losses[1]


@pytest.mark.parametrize("kept", ["length", None])
def test_a_run_rehearses_where_rewards_say_nothing(start, tmp_path, kept):
    """All plans are wrong alike, so that no weight would change."""
    from safetensors.torch import load_file

    settings, place, _, _ = start
    finished = train(
        settings,
        tmp_path / "run",
        start=place,
        questions=world.QUESTIONS,
        grader=world.Exact,
        sampler=world.Canned(world.completion(1)),
        rehearsal=kept and rehearsal(settings, kept),
    )
    before, after = (load_file(folder / "model.safetensors") for folder in (place, tmp_path / "run" / "model"))
    assert finished.status == "finished"
    assert all(torch.equal(before[name], after[name]) for name in before) is (kept is None)


def test_what_is_rehearsed_does_not_hang_on_the_number_of_backward_passes(start, tmp_path, monkeypatch):
    """Counted as well: Adam takes twice the gradient for the same one."""
    from safetensors.torch import load_file

    settings, place, _, _ = start
    read, loss = [], Rehearsal.loss
    monkeypatch.setattr(Rehearsal, "loss", lambda self, *given: read.append(given[-1]) or loss(self, *given))
    completions = settings.grpo.questions * settings.grpo.rollouts
    weights = []
    for batch in (completions, completions // 2):
        folder = tmp_path / str(batch)
        train(
            settings.model_copy(update={"grpo": settings.grpo.model_copy(update={"batch": batch})}),
            folder,
            start=place,
            questions=world.QUESTIONS,
            grader=world.Exact,
            sampler=world.Canned(world.completion(1)),
            rehearsal=rehearsal(settings, "length"),
        )
        weights.append(load_file(folder / "model" / "model.safetensors"))
    assert all(torch.allclose(weights[0][name], weights[1][name], atol=1e-6) for name in weights[0])
    assert read == [*range(settings.grpo.iterations)] * 2


def test_keeping_an_answer_is_held_against_planning_again(start):
    """Both ways: of rounds that half keep, a model that never would, or always would, learns to."""
    from transformers import AutoModelForCausalLM

    from training.rounds import KEEP, Rounds

    settings, place, _, tokenizer = start
    model = AutoModelForCausalLM.from_pretrained(place)
    prompt = examples_of(settings).prompt(world.QUESTIONS["q1"], 2, 2)
    told = tokenizer.convert_tokens_to_ids("]\nsubtasks = [")
    ids = torch.tensor([tokenizer(prompt + "model_id = [")["input_ids"]])

    def keeps():
        return model(ids).logits[0, -1].softmax(dim=-1)[told].item()

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for known, reached in (
        ([KEEP], lambda p: p > 0.9),
        ([PLAN], lambda p: p < 0.1),
        ([PLAN, KEEP], lambda p: p > 0.25),
    ):
        held = Rehearsal(Rounds([(prompt, known)]), "length")
        for step in range(40):
            held.loss(model, tokenizer, step).backward()
            optimizer.step()
            optimizer.zero_grad()
        assert reached(keeps()), (known, keeps())
    assert keeps() < 0.75
