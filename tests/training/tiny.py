"""A tiny Llama of random weights with a tokenizer, as transformers saves them, and the folder that it is exported to.

Its completions are noise. With `plan`, it is taught for a moment to answer everything with that text.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conductor_plugin.pool import Pool, pool_from

PLAN = 'model_id = [1, 0]\nsubtasks = ["", "Check it."]\naccess_list = [[], "all"]'
POOL = pool_from(
    {"workers": [{"name": name, "kind": kind} for name, kind in (("sums", "calculator"), ("words", "text"))]}
)
QUESTIONS = ["What is 17 * 23?", "Spell été backward.", "x"]
TEMPLATE = (
    "{% for message in messages %}<|user|>{{ message['role'] }}: {{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|plan|>{% endif %}"
)


def make_checkpoint(
    folder: Path, *, template: str | None = None, plan: str | None = None, prompts: Sequence[Any] = ()
) -> Path:
    """Save model and tokenizer in the folder."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = make_tokenizer(template)
    torch.set_num_threads(1)  # several wait for one another in a model this small
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=96,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        # Larger than usual, so that completions of random weights are not one token again and again.
        initializer_range=0.02 if plan else 0.3,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    if plan is not None:
        _teach(model, tokenizer, plan, prompts)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tokenizer(template: str | None) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|pad|>", "<|end|>", "<|user|>", "<|plan|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator([PLAN] * 20, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|end|>", pad_token="<|pad|>")
    tokenizer.chat_template = template
    return tokenizer


def _teach(model: Any, tokenizer: Any, plan: str, prompts: Sequence[str]) -> None:
    import torch

    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    target = tokenizer(plan)["input_ids"] + [tokenizer.eos_token_id]
    rows = [(tokenizer(prompt)["input_ids"], target) for prompt in prompts]
    for step in range(300):
        prompt, answer = rows[step % len(rows)]
        labels = torch.tensor([[-100] * len(prompt) + answer])
        loss = model(input_ids=torch.tensor([prompt + answer]), labels=labels).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        if loss.item() < 0.01:
            break


def pool_of(names: Sequence[str]) -> Pool:
    """The workers of those names in that order."""
    return POOL.of(POOL.worker(name) for name in names)
