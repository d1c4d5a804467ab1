"""What was trained as the folder that `--planner conductor:FOLDER` runs, with manifest and model card.

A whole Llama becomes ONNX with its tokenizer; an adapter on SmolLM2 stays as PEFT saved it.

Nothing is written unless the exported model gives, on the given questions, the very prompts and greedy completions of
the torch model.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, Literal

from conductor_plugin.errors import InputError
from conductor_plugin.lora_adapter import CONFIG, WEIGHTS
from conductor_plugin.plan import PlanRules
from conductor_plugin.planners import known, manifest
from conductor_plugin.planners.adapter import installed_base
from conductor_plugin.planners.base import PlanRequest
from conductor_plugin.planners.decoder import greedy
from conductor_plugin.planners.known import Known
from conductor_plugin.planners.manifest import Decoding, Manifest, PromptSettings, TrainedPool, TrainedRules
from conductor_plugin.planners.trained_conductor import decoder_of
from conductor_plugin.pool import Pool
from conductor_plugin.workers.local import weights
from training.models import is_adapter
from training.onnx_model import write_onnx

Precision = Literal["fp32", "fp16", "int8"]
CARD = Path(__file__).parent / "model_card.md"
SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")


def export(
    checkpoint: Path,
    folder: Path,
    *,
    pool: Pool,
    questions: Sequence[str],
    run: str,
    prompt: PromptSettings,
    rules: TrainedRules,
    max_tokens: int,
    subsets: bool = False,
    families: Known | None = None,
    taught: Sequence[str] = (),
    precision: Precision = "fp32",
    card: Mapping[str, str] | None = None,
) -> Manifest:
    """Write a checkpoint (a Llama of transformers with its tokenizer, or an adapter) as a trained Conductor's folder.

    `families` tells families apart, and it plans those that were `taught`, by default all of them.
    `questions` are what the export is tried on; `card` fills the model card (`training/model_card.md`), and what it
    leaves out says "not recorded". The folder appears whole or not at all. InputError `export_exists` if it is there,
    `export_unlike` if the exported model writes other text than torch, `bad_option` without questions or for an
    adapter in int8.
    """
    if folder.exists():
        raise InputError(f"{folder} is there already; export into a new folder", code="export_exists")
    if not questions:
        raise InputError("name the questions that the export is tried on", code="bad_option")
    adapted = is_adapter(checkpoint)
    if adapted and precision == "int8":
        raise InputError("an adapter is exported in fp32 or fp16, not in int8", code="bad_option")
    model, tokenizer = _loaded(checkpoint)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as partial:
        made = Path(partial) / "whole"
        made.mkdir()
        if adapted:
            _copy_adapter(checkpoint, made, precision)
        else:
            write_onnx(model, made / manifest.MODEL, precision)
            _write_tokenizer(tokenizer, made)
        if families:
            (made / known.FILE).write_text(families.model_dump_json(), encoding="utf-8")
        facts = Manifest(
            run=run,
            base=installed_base() if adapted else None,
            prompt=prompt,
            prompt_digest=prompt.digest(),
            rules=rules,
            pool=TrainedPool.of(pool),
            subsets=subsets,
            families=tuple(taught or families.families) if families else (),
            decoding=Decoding(
                max_tokens=max_tokens, eos=_ends(model, tokenizer), context=model.config.max_position_embeddings
            ),
            special={name: str(text) for name in SPECIAL if (text := getattr(tokenizer, name, None))},
            files=manifest.records(made),
        )
        _check_alike(model, tokenizer, made, facts, [_request(question, pool, rules) for question in questions])
        (made / manifest.FILE).write_text(json.dumps(facts.model_dump(mode="json"), indent=1), encoding="utf-8")
        (made / manifest.CARD).write_text(_card(facts, families, model, precision, card or {}), encoding="utf-8")
        made.rename(folder)
    return facts


def _loaded(checkpoint: Path) -> tuple[Any, Any]:
    """The checkpoint's model and tokenizer, by transformers; an adapter on weights of its own."""
    import transformers

    def whole(folder: Path, attention: str | None = None) -> Any:
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, dtype="float32", attn_implementation=attention
        )

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
    if not is_adapter(checkpoint):
        return whole(checkpoint, "eager").eval(), tokenizer
    from peft import PeftModel

    return PeftModel.from_pretrained(whole(weights()), checkpoint).eval(), tokenizer


def _copy_adapter(checkpoint: Path, folder: Path, precision: Precision) -> None:
    """The adapter's files; where its base lay on the machine that trained it is nobody's business."""
    from safetensors.torch import load_file, save_file

    weights = load_file(checkpoint / WEIGHTS)
    if precision == "fp16":
        weights = {name: one.half() for name, one in weights.items()}
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod(0o644)  # safetensors leaves it to its owner alone
    settings = json.loads((checkpoint / CONFIG).read_text(encoding="utf-8"))
    settings["base_model_name_or_path"] = installed_base()
    (folder / CONFIG).write_text(json.dumps(settings, indent=1), encoding="utf-8")


def _write_tokenizer(tokenizer: Any, folder: Path) -> None:
    tokenizer.backend_tokenizer.save(str(folder / manifest.TOKENIZER))
    if tokenizer.chat_template:
        (folder / manifest.TEMPLATE).write_text(tokenizer.chat_template, encoding="utf-8")


def _ends(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """The tokens that end a completion, as `generate` takes them."""
    ends = model.generation_config.eos_token_id
    if ends is None:
        ends = model.config.eos_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id
    if ends is None:
        raise InputError("neither the model nor its tokenizer has a token that ends a completion", code="export_no_eos")
    return tuple(ends) if isinstance(ends, list | tuple) else (int(ends),)


def _request(question: str, pool: Pool, rules: TrainedRules) -> PlanRequest:
    conductor = rules.max_rounds > 0
    return PlanRequest(
        question=question,
        pool=pool,
        rules=PlanRules(workers=len(pool.workers), max_steps=rules.max_steps, conductor=conductor),
    )


def _check_alike(model: Any, tokenizer: Any, made: Path, facts: Manifest, requests: Sequence[PlanRequest]) -> None:
    """InputError `export_unlike` for the first prompt or greedy completion that differs."""
    decoder = decoder_of(made, facts)
    for request in requests:
        prompt = facts.prompt.build(request)
        ids = decoder.prompt(prompt)
        if ids != torch_prompt(tokenizer, prompt):
            raise InputError(f"the exported tokenizer reads {request.question!r} otherwise", code="export_unlike")
        here = decoder.complete(ids, max_tokens=facts.decoding.max_tokens, eos=facts.decoding.eos, pick=greedy)
        there = torch_greedy(model, ids, facts.decoding)
        if here != there:
            raise InputError(
                f"the exported model plans {request.question!r} otherwise than torch: {decoder.text(here)!r} instead "
                f"of {decoder.text(there)!r}; export it in fp32",
                code="export_unlike",
            )


def torch_prompt(tokenizer: Any, prompt: manifest.Prompt) -> list[int]:
    """A prompt's token ids as the trainer makes them."""
    if isinstance(prompt, str):
        ids: list[int] = tokenizer(prompt)["input_ids"]
    elif tokenizer.chat_template is None:
        ids = tokenizer("\n\n".join(message.content for message in prompt), add_special_tokens=False)["input_ids"]
    else:
        turns = [message.model_dump() for message in prompt]
        ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=True)["input_ids"]
    return list(ids)


def torch_greedy(model: Any, ids: Sequence[int], decoding: Decoding) -> list[int]:
    """The greedy completion's ids by transformers, without the token that ends it."""
    import torch

    with torch.inference_mode():
        [row] = model.generate(
            torch.tensor([list(ids)]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            do_sample=False,
            max_new_tokens=decoding.max_tokens,
            eos_token_id=list(decoding.eos),
            pad_token_id=decoding.eos[0],
        )
    made: list[int] = row[len(ids) :].tolist()
    return made[:-1] if made and made[-1] in decoding.eos else made


def _card(facts: Manifest, families: Known | None, model: Any, precision: str, card: Mapping[str, str]) -> str:
    rates = families.rates if families else None
    trained = sum(one.numel() for name, one in model.named_parameters() if not facts.base or "lora_" in name)
    knows = (
        f"Of {rates.inside} questions of these families that set nothing it refused {rates.false_reject:.1%}; of "
        f"{rates.outside} of others it took in {rates.false_accept:.1%}."
        if rates
        else "It plans whatever it is asked."
    )
    unknown = dict.fromkeys(("data", "recipe", "figures", "limits"), "Not recorded.")
    return Template(CARD.read_text(encoding="utf-8")).substitute(
        {
            **unknown,
            **card,
            "run": facts.run,
            "form": (
                f"An adapter of {trained / 1e6:.2f} million parameters in {precision} on {facts.base}, run on the CPU "
                "by torch (`prefect-conductor[local]`)"
                if facts.base
                else f"{trained / 1e6:.2f} million parameters, a Llama as ONNX in {precision}, run on the CPU by "
                "onnxruntime"
            ),
            "pool": "\n".join(f"{i}. {name}" for i, name in enumerate(facts.pool.names)),
            "fingerprint": facts.pool.fingerprint,
            "subsets": "and of parts of it" if facts.subsets else "and of no other",
            "rounds": facts.rules.max_rounds,
            "steps": facts.rules.max_steps,
            "families": ", ".join(facts.families) or "all",
            "knows": knows,
        }
    )
