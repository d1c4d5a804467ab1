"""The arithmetic of docs/gpus.md: parameters against transformers and the published counts, sums against other ways."""

from pathlib import Path

import pytest
import torch

from training.config import CONFIGS
from training.memory import LAYOUTS, SHAPES, WORK, Layout, Work, activations, main, peak, states, table, vllm

DOCS = Path(__file__).parents[2] / "docs/gpus.md"


@pytest.mark.parametrize(("name", "count", "published"), [("3b", 3_085_938_688, 3.09), ("7b", 7_615_616_512, 7.62)])
def test_parameters_are_those_of_the_model(name, count, published):
    """The model's card has them in billions; transformers makes the same model, without memory for it."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape = SHAPES[name]
    assert shape.parameters == count
    assert round(count / 1e9, 2) == published
    with torch.device("meta"):
        model = Qwen2ForCausalLM(
            Qwen2Config(
                hidden_size=shape.hidden,
                num_hidden_layers=shape.layers,
                num_attention_heads=shape.heads,
                num_key_value_heads=shape.kv_heads,
                intermediate_size=shape.intermediate,
                vocab_size=shape.vocabulary,
                tie_word_embeddings=shape.tied,
            )
        )
    assert sum(parameter.numel() for parameter in model.parameters()) == count


def test_an_adapters_parameters_are_pefts():
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from training.memory import Shape

    shape = Shape(hidden=16, layers=2, heads=4, kv_heads=2, intermediate=24, vocabulary=32, tied=True)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=24,
            vocab_size=32,
            tie_word_embeddings=True,
        )
    )
    adapted = get_peft_model(model, LoraConfig(r=3, target_modules="all-linear", task_type="CAUSAL_LM"))
    assert sum(p.numel() for p in adapted.parameters() if p.requires_grad) == shape.adapter(3)


def test_bytes_for_each_parameter():
    shape, count = SHAPES["7b"], SHAPES["7b"].parameters

    def each(layout):
        return {part: round(size / count, 3) for part, size in states(shape, layout).items()}

    assert each(Layout(2)) == {"weights": 6, "gradients": 4, "adam": 8, "cpu": 0}
    assert each(Layout(4, "zero2")) == {"weights": 2, "gradients": 1, "adam": 3, "cpu": 0}
    assert each(Layout(4, "zero2", offload=True)) == {"weights": 2, "gradients": 1, "adam": 0, "cpu": 12}
    gathered = 2e9 / count
    assert each(Layout(8, "zero3"))["weights"] == pytest.approx(0.25 + gathered, abs=1e-3)
    adapter = shape.adapter(32)
    assert states(shape, Layout(1, rank=32))["weights"] == 2 * count + 4 * adapter


def test_keys_and_values_of_a_token():
    assert (SHAPES["3b"].kv_bytes, SHAPES["7b"].kv_bytes) == (36_864, 57_344)
    asked = vllm(SHAPES["7b"], Layout(2), Work(rollouts=10, prompt=30, completion=20))
    assert asked == {"weights": 2 * 7_615_616_512, "cache": 10 * 50 * 57_344 / 2}


def test_activations_grow_with_the_batch_and_the_head_with_what_learns():
    shape = SHAPES["7b"]
    whole, adapter = Layout(1), Layout(1, rank=32)
    one, two = (activations(shape, adapter, Work(batch=batch)) for batch in (1, 2))
    assert two == pytest.approx(2 * one)
    head = activations(shape, whole, WORK) - activations(shape, adapter, WORK)
    assert head == 4 * shape.vocabulary * shape.hidden


def test_shipped_configurations_fit_80_gb_with_a_tenth_to_spare():
    shipped = {title: layout for title, layout in LAYOUTS if title != "-"}
    assert set(shipped) == {f"gpu/{path.stem}" for path in (CONFIGS / "gpu").glob("*.yaml")}
    for title, layout in shipped.items():
        assert peak(SHAPES["7b"], layout, WORK)["together"] < 72e9, title
        served = vllm(SHAPES["7b"], layout, WORK)
        assert served["weights"] + served["cache"] / 8 < 0.4 * 80e9, title  # what the configurations give vLLM
    assert peak(SHAPES["7b"], Layout(1), WORK)["learning"] > 80e9  # why the paper's recipe is in shares


def test_the_table_of_the_docs_is_the_scripts(capsys):
    main(["--model", "3b"])
    assert table(["3b"]) in capsys.readouterr().out
    assert table(["3b", "7b"]) in DOCS.read_text(encoding="utf-8")
