"""The fast hooks give what the plain ones give: completions, log-probabilities, gradients, and whole steps of GRPO."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from tests.training import world  # noqa: E402
from training.config import Scratch  # noqa: E402
from training.fast.logps import shared_log_probs, shared_logits  # noqa: E402
from training.fast.sampler import FastSampler, sample  # noqa: E402
from training.scratch import make_model, make_tokenizer  # noqa: E402

pytestmark = pytest.mark.local
PROMPTS = ["question: What is 17 * 4?\nplan:\n", "question: hello\nplan:\n", "question: Is 97 prime, or not?\nplan:\n"]


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer([*PROMPTS, 'model_id = [0, 1]\nsubtasks = ["", "Go on."]\naccess_list = [[], [0]]'], 300)


@pytest.fixture(scope="module", params=["plain", "heads that share keys", "an adapter"])
def model(tokenizer, request):
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaForCausalLM

    made = make_model(Scratch(hidden=32, layers=3, heads=4, vocabulary=300), tokenizer, seed=1)
    if request.param == "heads that share keys":
        made.config.num_key_value_heads = 2
        made = LlamaForCausalLM(made.config)
    with torch.no_grad():  # random weights of the usual size give one token for ever
        for parameter in made.parameters():
            parameter.mul_(4.0)
    if request.param == "an adapter":
        lora = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
        return get_peft_model(made, lora)
    return made


def test_greedy_completions_are_those_of_generate(model, tokenizer):
    prompts = [tokenizer(PROMPTS[i])["input_ids"] for i in (0, 0, 1, 2, 1)]
    plain = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=30, do_sample=False)
        plain.append(whole[0, len(prompt) :].tolist())
    for end in (tokenizer.eos_token_id, plain[2][4]):  # also where rows end at different times
        wanted = [row[: row.index(end) + 1] if end in row else row for row in plain]
        assert sample(model, prompts, most=30, end=end, temperature=0) == wanted


def test_draws_have_the_probabilities_of_the_model(model, tokenizer):
    prompt = tokenizer(PROMPTS[0])["input_ids"]
    with torch.no_grad():
        chances = model(torch.tensor([prompt])).logits[0, -1].div(1.5).softmax(dim=-1)
    drawn = sample(model, [prompt] * 4000, most=1, end=-1, temperature=1.5, generator=torch.Generator().manual_seed(0))
    counts = torch.bincount(torch.tensor([row[0] for row in drawn]), minlength=len(chances)) / len(drawn)
    assert (counts - chances).abs().max() < 0.03


def test_sampled_rows_are_those_of_the_plain_model_with_the_same_draws(model, tokenizer):
    """Also where rows begin alike and part later, and end at different times."""
    asked = [tokenizer(PROMPTS[i])["input_ids"] for i in [0] * 40 + [1] * 3 + [2] * 20]
    most, temperature = 12, 0.5
    # What the model likes best ends a completion, as a step more may do at any time.
    with torch.no_grad():
        end = int(model(torch.tensor(asked[:1])).logits[0, -1].argmax())
    draws, rows = torch.Generator().manual_seed(5), [list(prompt) for prompt in asked]
    going = list(range(len(rows)))
    for _ in range(most):
        drawn = torch.rand(len(going), 1, generator=draws)
        for row, luck in zip(list(going), drawn, strict=True):
            with torch.no_grad():
                heaped = (model(torch.tensor([rows[row]])).logits[0, -1] / temperature).softmax(dim=-1).cumsum(dim=-1)
            token = int(torch.searchsorted(heaped, luck * heaped[-1], right=True))
            rows[row].append(token)
            if token == end:
                going.remove(row)
    written = [row[len(prompt) :] for row, prompt in zip(rows, asked, strict=True)]
    assert len({tuple(row) for row in written}) < len(written)
    assert {len(row) for row in written} > {1, most}
    generator = torch.Generator().manual_seed(5)
    assert sample(model, asked, most=most, end=end, temperature=temperature, generator=generator) == written


def test_sampling_leaves_the_model_in_its_mode(model, tokenizer):
    model.train()
    sample(model, [tokenizer("a")["input_ids"]], most=2, end=-1)
    assert model.training


def padded(tokenizer, completions):
    """Rows as TRL makes them: the prompts padded on the left, the completions on the right."""
    prompts = [tokenizer(PROMPTS[i])["input_ids"] for i, _ in completions]
    wide, kept = max(map(len, prompts)), max(len(row) for _, row in completions)
    ids, mask = [], []
    for prompt, (_, row) in zip(prompts, completions, strict=True):
        ids.append([0] * (wide - len(prompt)) + prompt + row + [0] * (kept - len(row)))
        mask.append([0] * (wide - len(prompt)) + [1] * (len(prompt) + len(row)) + [0] * (kept - len(row)))
    return torch.tensor(ids), torch.tensor(mask), kept


@pytest.mark.parametrize(
    "rows",
    [
        [(0, [5, 6, 7, 8]), (1, [9, 9]), (0, [4]), (2, [11, 12, 13]), (1, [3, 2, 1])],
        # Alike to the end, for a while, and with another prompt.
        [(0, [5, 6, 7]), (1, [5, 6, 7]), (0, [5, 6, 7]), (0, [5, 6]), (0, [5, 9, 7, 7]), (1, [6, 6, 7])],
        [(0, [5]), (1, [5]), (0, [7])],
    ],
)
def test_log_probabilities_entropies_and_gradients_are_the_plain_ones(model, tokenizer, rows):
    ids, mask, kept = padded(tokenizer, rows)
    own = mask[:, -kept:].bool()

    def plain():
        position = (mask.cumsum(dim=1) - 1).clamp(min=0)
        logits = model(ids, attention_mask=mask, position_ids=position).logits[:, -kept - 1 : -1] / 0.7
        every = logits.log_softmax(dim=-1)
        return every.gather(-1, ids[:, -kept:, None])[..., 0], -(every.exp() * every).sum(dim=-1)

    found = []
    for log_probs, entropies in (plain(), shared_log_probs(model, ids, mask, kept, 0.7)):
        model.zero_grad()
        (log_probs[own].sum() + entropies[own].sum()).backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad])
        found.append((log_probs[own], entropies[own], gradient / gradient.abs().max()))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-4)


def test_a_model_that_is_no_plain_llama_is_refused(model, tokenizer):
    from transformers import GPT2Config, GPT2LMHeadModel

    other = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=50))
    ids = torch.ones(2, 4, dtype=torch.long)
    with pytest.raises(ValueError, match="know Llama models"):
        shared_logits(other, ids, ids, 2)
    with pytest.raises(ValueError, match="know Llama models"):
        sample(other, [[1]], most=2, end=-1)


def test_an_adapter_that_is_not_in_use_is_refused(tokenizer):
    """Its model writes what the adapter does not say."""
    from peft import LoraConfig, get_peft_model

    made = make_model(Scratch(hidden=32, layers=1, heads=4, vocabulary=300), tokenizer, seed=1)
    adapted = get_peft_model(made, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    with adapted.disable_adapter(), pytest.raises(ValueError, match="adapters that are in use"):
        sample(adapted, [[1]], most=2, end=-1)
    adapted.merge_adapter()
    with pytest.raises(ValueError, match="adapters that are in use"):
        sample(adapted, [[1]], most=2, end=-1)


def test_three_steps_of_grpo_are_those_of_the_plain_trainer(tmp_path):
    """The same completions, so that the hooks alone differ; a sampler of one's own is compared above."""
    from training.grpo import train
    from training.records import read_lines

    start = world.save_model(tmp_path / "start")
    right, wrong = world.completion(0), world.completion(1, 1)
    logs = {}
    for name, hooks in {"plain": {}, "fast": {"log_probs": shared_log_probs}}.items():
        folder = tmp_path / name
        config = world.config(
            world.pool_file(tmp_path),
            grpo={"iterations": 3, "lr": 1e-2},
            gate={"parse_rate": 0.0},
        )
        train(
            config,
            folder,
            start=start,
            questions=world.QUESTIONS,
            grader=world.Exact,
            sampler=world.Canned(right, wrong, wrong, "no plan"),
            **hooks,
        )
        logs[name] = read_lines(folder / "log.jsonl")
    assert len(logs["plain"]) == 3
    for plain, fast in zip(logs["plain"], logs["fast"], strict=True):
        assert plain["reward_mean"] == fast["reward_mean"] > 0
        assert plain["grad_norm"] > 0
        for figure in ("loss", "grad_norm", "entropy"):
            assert plain[figure] == pytest.approx(fast[figure], abs=1e-4, rel=1e-3)


def test_the_sampler_is_the_trainers(tmp_path):
    from training.grpo import train
    from training.records import read_lines

    start = world.save_model(tmp_path / "start")
    config = world.config(
        world.pool_file(tmp_path), grpo={"iterations": 1, "max_completion_tokens": 5}, gate={"parse_rate": 0.0}
    )
    done = train(
        config, tmp_path / "run", start=start, questions=world.QUESTIONS, grader=world.Exact, sampler=FastSampler()
    )
    assert done.status == "finished"
    assert len(read_lines(tmp_path / "run" / "rollouts.jsonl")) == 8
