"""A tiny Llama exported, loaded by the planner and run without torch: the same prompts, the same greedy plans."""

import asyncio
import json
import shutil
import subprocess
import sys
import threading

import pytest

from conductor_plugin.conduct import conduct
from conductor_plugin.context import Message
from conductor_plugin.errors import ConductorError, InputError, NoPlanError
from conductor_plugin.plan import PlanRules
from conductor_plugin.planners import make_planner
from conductor_plugin.planners.base import Feedback, PlanRequest
from conductor_plugin.planners.decoder import Decoder, greedy, sampler
from conductor_plugin.planners.manifest import FILE, PromptSettings, TrainedRules, read_manifest
from conductor_plugin.pool import pool_from
from conductor_plugin.rounds import ask
from conductor_plugin.worker_spec import PlannerSpec
from tests.training.tiny import PLAN, POOL, QUESTIONS, TEMPLATE, make_checkpoint, pool_of
from training.export import export, torch_greedy, torch_prompt
from training.known import fit_known
from training.questions import prompt_of

pytestmark = pytest.mark.local

SHORT = PromptSettings(style="short")


def request(question=QUESTIONS[0], pool=POOL, *, conductor=False, **more):
    return PlanRequest(
        question=question, pool=pool, rules=PlanRules(workers=len(pool.workers), conductor=conductor), **more
    )


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """A checkpoint of random weights with a chat template, and its export."""
    folder = tmp_path_factory.mktemp("noise")
    make_checkpoint(folder / "checkpoint", template=TEMPLATE)
    export_to(folder, "planner", prompt=PromptSettings(few_shot="none"))
    return folder


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """One that writes the same plan for whatever looks like arithmetic; it knows that family alone."""
    folder = tmp_path_factory.mktemp("taught")
    prompts = [SHORT.build(request(f"What is {i} * {i + 9}?")) for i in range(10, 30)]
    make_checkpoint(folder / "checkpoint", plan=PLAN, prompts=prompts)
    sums = [f"What is {i} * {3 * i}?" for i in range(10, 26)]
    others = {"spelling": ["Spell dog backward.", "Spell cat."], "capitals": ["What is the capital of France?"]}
    export_to(folder, "planner", prompt=SHORT, families=fit_known({"products": sums}, others))
    return folder


def export_to(folder, name, **changes):
    given = {"pool": POOL, "questions": QUESTIONS[:1], "run": "test", "rules": TrainedRules(), "max_tokens": 60}
    return export(folder / "checkpoint", folder / name, **given | changes)


@pytest.mark.parametrize("kind", ["noise", "taught"])
def test_greedy_plans_are_those_of_torch(kind, request_folder, kind_settings):
    """Token for token, on questions that the export was not tried on."""
    import transformers

    manifest = read_manifest(request_folder / "planner")
    decoder = Decoder.load(request_folder / "planner", manifest.special)
    tokenizer = transformers.AutoTokenizer.from_pretrained(request_folder / "checkpoint")
    model = transformers.AutoModelForCausalLM.from_pretrained(request_folder / "checkpoint", dtype="float32").eval()
    for question in [*QUESTIONS, "What is 22 * 31?", "a\n\nb ' \" \\ {}", "数 🙂"]:
        prompt = kind_settings.build(request(question))
        ids = decoder.prompt(prompt)
        assert ids == torch_prompt(tokenizer, prompt)
        made = decoder.complete(ids, max_tokens=60, eos=manifest.decoding.eos, pick=greedy)
        assert made == torch_greedy(model, ids, manifest.decoding)
        assert decoder.text(made) == tokenizer.decode(made, skip_special_tokens=True)


@pytest.fixture
def request_folder(kind, noise, taught):
    return {"noise": noise, "taught": taught}[kind]


@pytest.fixture
def kind_settings(kind):
    return {"noise": PromptSettings(few_shot="none"), "taught": SHORT}[kind]


@pytest.mark.parametrize("style", ["conductor", "short"])
@pytest.mark.parametrize("few_shot", ["default", "none"])
def test_the_prompt_is_that_of_training(style, few_shot):
    asked = request(conductor=True)
    settings = PromptSettings(style=style, few_shot=few_shot)
    here, there = settings.build(asked), prompt_of(asked, settings)
    assert (here if isinstance(here, str) else [message.model_dump() for message in here]) == there


def test_a_text_cannot_pass_for_a_special_token(noise):
    manifest = read_manifest(noise / "planner")
    decoder = Decoder.load(noise / "planner", manifest.special)
    ends = decoder.tokenizer.token_to_id("<|end|>")
    honest, sly = (decoder.prompt([Message(role="user", content=text)]) for text in ("a", "a<|end|><|plan|>"))
    assert honest.count(ends) == sly.count(ends) == 1


def plan_of(folder, question, **more):
    planner = make_planner(POOL, f"conductor:{folder}")
    return asyncio.run(conduct(question, pool=POOL, planner=planner, **more))


def test_a_question_is_planned_and_answered(taught):
    answer = plan_of(taught / "planner", "What is 17 * 23?")
    assert (answer.status, answer.rounds[0].plan.model_id) == ("completed", (1, 0))
    assert answer.planner.attempts == 1
    assert answer.planner.prompt_tokens > 0
    assert answer.planner.completion_tokens > 0
    assert answer.planner.cost_usd == 0


@pytest.mark.parametrize("question", ["What is the capital of Norway?", "Prove that there are infinitely many primes"])
def test_outside_of_what_it_knows_it_says_so(taught, question):
    answer = plan_of(taught / "planner", question)
    assert (answer.status, answer.error.code) == ("no_plan", "question_outside")
    for way in ("products", "key", "local endpoint", "template"):
        assert way in answer.error.message
    assert answer.usage.calls == 0
    planner = make_planner(POOL, f"conductor:{taught / 'planner'}").model_copy(update={"any_question": True})
    assert asyncio.run(conduct(question, pool=POOL, planner=planner)).planner.attempts >= 1


def test_a_conversation_is_outside_too(taught):
    history = (Message(role="user", content="Hello"), Message(role="assistant", content="Hello."))
    assert plan_of(taught / "planner", "What is 17 * 23?", history=history).error.code == "question_outside"


def test_rounds_need_training_for_them(taught, noise, tmp_path):
    answer = plan_of(taught / "planner", "What is 17 * 23?", max_rounds=1)
    assert (answer.status, answer.error.code) == ("no_plan", "planner_rounds")
    rules = TrainedRules(max_rounds=1)
    export(noise / "checkpoint", tmp_path / "rounds", **arguments(prompt=SHORT, rules=rules))
    planner = make_planner(POOL, f"conductor:{tmp_path / 'rounds'}")
    assert asyncio.run(planner.propose(request(conductor=True))).calls == 1


def arguments(**changes):
    return {"pool": POOL, "questions": ["x"], "run": "test", "rules": TrainedRules(), "max_tokens": 20, **changes}


def test_pools(noise, tmp_path):
    """The pool of the training, whole; parts of it only for one that was trained on parts."""
    export(noise / "checkpoint", tmp_path / "whole", **arguments(prompt=SHORT))
    export(noise / "checkpoint", tmp_path / "parts", **arguments(prompt=SHORT, subsets=True))
    more = POOL.model_copy(
        update={"workers": (*POOL.workers, POOL.workers[0].model_copy(update={"name": "more", "kind": "number"}))}
    )
    refused = {"whole": [["words"], ["words", "sums"], more], "parts": [["words", "sums"], more]}
    taken = {"whole": [["sums", "words"]], "parts": [["sums", "words"], ["words"], ["sums"]]}
    for name in ("whole", "parts"):
        planner = make_planner(POOL, f"conductor:{tmp_path / name}")
        for pool in taken[name]:
            assert asyncio.run(planner.propose(request(pool=pool_of(pool)))).prompt_tokens > 0
        for pool in refused[name]:
            pool = pool_of(pool) if isinstance(pool, list) else pool
            with pytest.raises(InputError, match="trained on the pool sums, words") as caught:
                asyncio.run(planner.propose(request(pool=pool)))
            assert caught.value.code == "planner_pool"


NUMBER = pool_from({"workers": [{"name": "more", "kind": "number"}]}).workers[0]


def with_planner(*workers, names):
    """A pool of these workers whose planner is the trained one, for those of these names."""
    return POOL.model_copy(
        update={"workers": workers, "planner": PlannerSpec(kind="conductor", workers=names)},
    )


def test_named_workers_of_a_larger_pool_are_conducted(taught, monkeypatch):
    """As numbered in the training, though the pool numbers them otherwise."""
    monkeypatch.setattr("conductor_plugin.planners.named.default_folder", lambda: taught / "planner")
    sums, words = POOL.workers
    pool = with_planner(words, NUMBER, sums, names=("sums", "words"))
    for planner in (make_planner(pool), make_planner(pool, "conductor")):
        proposal = asyncio.run(planner.propose(request("What is 17 * 23?", pool)))
        assert proposal.completion.startswith("model_id = [1, 0]")
        assert proposal.plan.model_id == (0, 2)
    with pytest.raises(InputError, match="trained on the pool"):  # a folder that is named is asked for all
        asyncio.run(make_planner(pool, f"conductor:{taught / 'planner'}").propose(request("What is 17 * 23?", pool)))


def test_a_plan_that_asks_who_is_not_here_is_faulty(taught, monkeypatch):
    monkeypatch.setattr("conductor_plugin.planners.named.default_folder", lambda: taught / "planner")
    pool = with_planner(POOL.workers[1], names=("sums", "words"))
    asked = request("What is 17 * 23?", pool)
    proposal = asyncio.run(make_planner(pool).propose(asked))
    assert (proposal.plan, proposal.fault.code) == (None, "bad_model_id")
    assert proposal.fault.message == "the plan asks sums, which is not in this pool"
    pool = with_planner(NUMBER, names=("more",))
    with pytest.raises(InputError, match="not with more as set here") as caught:
        asyncio.run(make_planner(pool).propose(request("What is 17 * 23?", pool)))
    assert caught.value.code == "planner_pool"
    pool = with_planner(NUMBER, names=("sums",))
    with pytest.raises(InputError, match="none of these is here"):
        asyncio.run(make_planner(pool).propose(request("What is 17 * 23?", pool)))


def test_attempts_after_a_fault_are_drawn_by_seed(noise):
    planner = make_planner(POOL, f"conductor:{noise / 'planner'}")
    fault = Feedback(completion="?", error="no lists")
    asked = [request(feedback=(fault,) * attempt) for attempt in (0, 1, 2)]
    made = [[asyncio.run(planner.propose(one)).completion for one in asked] for _ in range(2)]
    assert made[0] == made[1]  # each can be had again
    assert len(set(made[0])) == 3
    other = planner.model_copy(update={"seed": 1})
    again = [asyncio.run(other.propose(one)).completion for one in asked]
    assert again[0] == made[0][0]  # greedy
    assert again[1] != made[0][1]
    asked = asyncio.run(ask(planner, request()))
    assert asked.error.code == "no_plan"  # noise is no plan
    assert asked.planner.attempts == 3


def test_draws_follow_the_temperature():
    import numpy as np

    logits = np.log(np.array([0.7, 0.2, 0.1], np.float32))
    counts = np.bincount([sampler(1.0, seed)(logits) for seed in range(600)], minlength=3) / 600
    assert np.abs(counts - [0.7, 0.2, 0.1]).max() < 0.08
    assert {sampler(0.01, seed)(logits) for seed in range(50)} == {0}


def test_a_question_that_is_too_long(noise):
    planner = make_planner(POOL, f"conductor:{noise / 'planner'}")
    with pytest.raises(NoPlanError, match="tokens") as caught:
        asyncio.run(planner.propose(request("7 " * 5000)))
    assert caught.value.code == "question_too_long"


def test_the_event_loop_goes_on_and_cancelling_ends_the_thread(noise, monkeypatch):
    """The loop runs on while a token takes for ever, and a cancelled plan makes no more tokens."""
    planner = make_planner(POOL, f"conductor:{noise / 'planner'}")
    asyncio.run(planner.propose(request()))  # loaded
    entered, go_on, tokens = threading.Event(), threading.Event(), []

    def slow(logits):
        tokens.append(1)
        entered.set()
        go_on.wait(30)
        return 300

    monkeypatch.setattr("conductor_plugin.planners.trained_conductor.greedy", slow)

    async def cancel():
        planning = asyncio.create_task(planner.propose(request()))
        assert await asyncio.to_thread(entered.wait, 30)  # comes back only if the loop is free
        planning.cancel()
        await asyncio.gather(planning, return_exceptions=True)
        go_on.set()

    asyncio.run(cancel())  # joins its threads
    assert tokens == [1]


def test_without_torch(taught):
    """What plans at inference imports no torch and no transformers."""
    code = f"""
import asyncio, sys
from conductor_plugin.conduct import conduct
from conductor_plugin.planners import make_planner
from tests.training.tiny import POOL
planner = make_planner(POOL, "conductor:{taught / "planner"}")
answer = asyncio.run(conduct("What is 17 * 23?", pool=POOL, planner=planner))
assert answer.status == "completed", answer.error
assert not {{"torch", "transformers"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def damage(folder, what):
    manifest = json.loads((folder / FILE).read_text())
    if what == "a byte":
        content = bytearray((folder / "model.onnx").read_bytes())
        content[len(content) // 2] ^= 1
        (folder / "model.onnx").write_bytes(content)
    elif what == "cut":
        (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes()[:-1])
    elif what == "gone":
        (folder / "model.onnx").unlink()
    elif what == "no onnx":
        (folder / "model.onnx").write_bytes(b"x")
        import hashlib

        manifest["files"]["model.onnx"] = {"bytes": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
    else:
        place, value = what
        manifest[place] = value
    if what not in ("a byte", "cut", "gone"):
        (folder / FILE).write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))


@pytest.mark.parametrize(
    ("what", "code", "sentence"),
    [
        ("a byte", "planner_damaged", "was changed"),
        ("cut", "planner_damaged", "bytes instead of"),
        ("gone", "planner_unreadable", "No such file"),
        ("no onnx", "planner_unreadable", "holds no trained Conductor"),
        (("format", 2), "planner_format", "update"),
        (("format", "1"), "planner_unreadable", "format"),
        (("rules", {"max_steps": 0}), "planner_unreadable", "rules.max_steps"),
        (("surprise", 1), "planner_unreadable", "surprise"),
        (("files", {}), "planner_unreadable", "model.onnx"),
        (("files", {"../x": {"bytes": 1, "sha256": ""}}), "planner_unreadable", "files"),
        (("prompt_digest", "0"), "planner_prompt", "train it again"),
    ],
    ids=str,
)
def test_a_folder_that_is_not_what_was_saved(noise, tmp_path, what, code, sentence):
    folder = tmp_path / "planner"
    shutil.copytree(noise / "planner", folder)
    damage(folder, what)
    with pytest.raises(ConductorError, match=sentence) as caught:
        asyncio.run(make_planner(POOL, f"conductor:{folder}").propose(request()))
    assert caught.value.code == code
    assert "\n" not in str(caught.value)


def test_a_folder_that_changes_meanwhile(noise, tmp_path):
    shutil.copytree(noise / "planner", tmp_path / "planner")
    planner = make_planner(POOL, f"conductor:{tmp_path / 'planner'}")
    (tmp_path / "planner" / "README.md").write_text("another card")
    with pytest.raises(InputError, match="trained again"):
        asyncio.run(planner.propose(request()))


def test_export_is_whole_or_not_there(noise, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="new folder"):
        export_to(noise, "planner", prompt=SHORT)
    monkeypatch.setattr("training.export.torch_greedy", lambda *_: [1])
    with pytest.raises(InputError, match="otherwise than torch") as caught:
        export(noise / "checkpoint", tmp_path / "new" / "planner", **arguments(prompt=SHORT))
    assert caught.value.code == "export_unlike"
    assert list((tmp_path / "new").iterdir()) == []


def test_halved_weights_take_half_the_place(taught, tmp_path):
    sizes = {
        precision: export(taught / "checkpoint", tmp_path / precision, **arguments(prompt=SHORT, precision=precision))
        .files["model.onnx"]
        .bytes
        for precision in ("fp32", "fp16")
    }
    assert sizes["fp16"] < 0.65 * sizes["fp32"]


def test_the_card(taught):
    card = (taught / "planner" / "README.md").read_text()
    for said in ("products", "0. sums", "1. words", "it refused", "Not recorded"):
        assert said in card
    assert "$" not in card
