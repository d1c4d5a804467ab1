"""The planner `conductor[:FOLDER]`: a small language model that learnt to conduct one pool (paper, "Training").

It runs here on the CPU: a whole model by onnxruntime, an adapter by torch, on SmolLM2. It knows the pool, the prompt
and the kinds of questions of its training, and says so where it is asked for anything else: its plan would be nonsense,
well written.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Event, Lock

from conductor_plugin.errors import InputError, NoPlanError, PlanError
from conductor_plugin.models import Frozen
from conductor_plugin.planners import known
from conductor_plugin.planners.adapter import AdapterDecoder
from conductor_plugin.planners.base import PlanRequest, Proposal, read_completion
from conductor_plugin.planners.choosing import lot
from conductor_plugin.planners.decoder import Decoder, greedy, sampler
from conductor_plugin.planners.known import Known, load_known
from conductor_plugin.planners.manifest import FILE, Manifest, TrainedPool, read_manifest
from conductor_plugin.planners.saved import Saved, folder_of
from conductor_plugin.pool import Pool
from conductor_plugin.receipt import error_record

WAYS_ON = (
    "use a model (--planner openai/gpt-5-mini with a key, or planner: with the api_base of a local endpoint in the "
    "pool file) or a template (--planner template:first-answer)"
)
_MOST_NAMED = 12


@dataclass(frozen=True)
class TrainedModel:
    """A folder, loaded."""

    manifest: Manifest
    decoder: Decoder | AdapterDecoder
    known: Known | None

    @staticmethod
    def load(folder: Path) -> "TrainedModel":
        """InputError says what is wrong with the folder; see `read_manifest` for the codes."""
        manifest = read_manifest(folder)
        families = load_known(folder) if known.FILE in manifest.files else None
        return TrainedModel(manifest, decoder_of(folder, manifest), families)


def decoder_of(folder: Path, manifest: Manifest) -> Decoder | AdapterDecoder:
    """What writes the completions: the whole model in the folder, or its adapter. InputError as their `load`."""
    if manifest.base:
        return AdapterDecoder.load(folder, manifest)
    return Decoder.load(folder, manifest.special)


class TrainedConductor(Frozen):
    """A trained Conductor. Its first attempt is greedy; after a faulty plan it draws, by `seed` and the question.

    With `any_question` it plans also what it was not trained on: for measuring how far its training carries. `workers`
    are names: of these it conducts those of its training, and the pool may have others, or lack some. It is shown as
    many as in its training, and a plan that asks one who is not here is faulty.
    """

    model: Saved
    name: str = "conductor"
    workers: tuple[str, ...] = ()
    tries: int = 3
    seed: int = 0
    any_question: bool = False

    async def propose(self, request: PlanRequest) -> Proposal:
        """One attempt. InputError where it was not trained for the pool or for rounds, NoPlanError `question_outside`
        for a question of no family that it knows.
        """
        stop = Event()
        try:
            return await asyncio.to_thread(self._propose, request, stop)
        except asyncio.CancelledError:
            stop.set()  # the thread ends at its next token
            raise

    def _propose(self, request: PlanRequest, stop: Event) -> Proposal:
        with _LOADING:
            model = _loaded(self.model)
        manifest = model.manifest
        places = places_in(request.pool, manifest, self.workers, self.name)
        check_request(manifest, None if self.any_question else model.known, request, self.name)
        trained = as_trained(request, manifest, len(places))
        prompt = model.decoder.prompt(manifest.prompt.build(trained))
        decoding = manifest.decoding
        if len(prompt) + decoding.max_tokens > decoding.context:
            raise NoPlanError(
                f"the question makes a prompt of {len(prompt)} tokens, and {self.name} reads "
                f"{decoding.context - decoding.max_tokens}; {WAYS_ON}",
                code="question_too_long",
            )
        attempt = len(request.feedback)
        seed = lot(self.seed, f"{attempt}\n{request.question}").getrandbits(64)
        pick = sampler(decoding.temperature, seed) if attempt else greedy
        made = model.decoder.complete(
            prompt, max_tokens=decoding.max_tokens, eos=decoding.eos, pick=pick, stopped=stop.is_set
        )
        proposal = read_completion(model.decoder.text(made), trained.rules)
        proposal = placed(proposal, places, manifest.pool.names, request.rules.workers)
        tokens = {"prompt_tokens": len(prompt), "completion_tokens": len(made)}
        return proposal.model_copy(update={"calls": 1, **tokens})


# Several threads that ask at once load the model once.
_LOADING = Lock()


@cache
def _loaded(saved: Saved) -> TrainedModel:
    return TrainedModel.load(folder_of(saved, FILE))


Places = Sequence[int | None]
"""For each number that a plan may use, the worker's number in the pool; None where the pool lacks it."""


def places_in(pool: Pool, manifest: Manifest, workers: Sequence[str], name: str) -> Places:
    """Where in the pool the workers are that a plan of `name` numbers; with `workers`, those of these names alone.

    InputError `planner_pool` unless the pool is that of the training, or the named ones are of it.
    """
    trained = manifest.pool
    if not workers:
        check_pool(trained, pool, name, subsets=manifest.subsets)
        return range(len(pool.workers))
    here = {worker.fingerprint: i for i, worker in enumerate(pool.workers) if worker.name in workers}
    others = [pool.workers[i].name for fingerprint, i in here.items() if fingerprint not in trained.workers]
    if others or not here:
        what = f"not with {', '.join(others)} as set here" if others else "and none of these is here"
        raise InputError(
            f"{name} was trained on the pool {', '.join(trained.names)}, {what}; {WAYS_ON}", code="planner_pool"
        )
    return [here.get(fingerprint) for fingerprint in trained.workers]


def as_trained(request: PlanRequest, manifest: Manifest, workers: int) -> PlanRequest:
    """The request as training would have shown it: no complaint about an earlier attempt, no more steps than then."""
    steps = min(request.rules.max_steps, manifest.rules.max_steps)
    rules = request.rules.model_copy(update={"max_steps": steps, "workers": workers})
    return request.model_copy(update={"feedback": (), "rules": rules})


def placed(proposal: Proposal, places: Places, names: Sequence[str], conductor: int) -> Proposal:
    """The proposal with its plan's workers as the pool numbers them; the number behind them is the Conductor's own.

    A plan that asks one of the `names` without a place is faulty.
    """
    if proposal.plan is None:
        return proposal
    absent = [names[i] for i in proposal.plan.model_id if i < len(places) and places[i] is None]
    if absent:
        fault = PlanError(f"the plan asks {absent[0]}, which is not in this pool", code="bad_model_id")
        return proposal.model_copy(update={"plan": None, "fault": error_record(fault)})
    ids = tuple(places[i] if i < len(places) else conductor for i in proposal.plan.model_id)
    return proposal.model_copy(update={"plan": proposal.plan.model_copy(update={"model_id": ids})})


def check_request(manifest: Manifest, families: Known | None, request: PlanRequest, name: str) -> None:
    """InputError `planner_rounds`, or NoPlanError `question_outside`, each with the way on."""
    if request.rules.conductor and not manifest.rules.max_rounds:
        raise InputError(
            f"{name} was not trained to plan again; leave out --max-rounds, or {WAYS_ON}", code="planner_rounds"
        )
    if request.history:
        raise NoPlanError(
            f"{name} was trained on questions alone, not on conversations; {WAYS_ON}", code="question_outside"
        )
    if families and families.family_of(request.question) not in manifest.families:
        raise NoPlanError(
            f"{name} plans only the kinds of questions that it was trained on ({_listed(manifest.families)}), and "
            f"this is none of them; {WAYS_ON}",
            code="question_outside",
        )


def check_pool(trained: TrainedPool, pool: Pool, name: str, *, subsets: bool) -> None:
    """InputError `planner_pool` unless the pool is that of the training: whole, or where it was trained so, a part.

    A part has workers of the training in their order; a plan's ids are those of the part.
    """
    workers = [worker.fingerprint for worker in pool.workers]
    if tuple(workers) == trained.workers or (subsets and _in_order(workers, trained.workers)):
        return
    others = [worker.name for worker in pool.workers if worker.fingerprint not in trained.workers]
    whole = f"the pool {', '.join(trained.names)}"
    mend = f"leave out {', '.join(others)} (--exclude)" if others else "use it whole and in its order"
    part = " or parts of it" if subsets else ""
    raise InputError(f"{name} was trained on {whole}{part}; {mend}, or {WAYS_ON}", code="planner_pool")


def _in_order(part: Sequence[str], whole: Sequence[str]) -> bool:
    rest = iter(whole)
    return all(worker in rest for worker in part)


def _listed(families: Sequence[str]) -> str:
    more = len(families) - _MOST_NAMED
    return ", ".join(families[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
