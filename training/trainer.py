"""TRL's GRPOTrainer with what the Conductor's recipe adds. Imports TRL: `grpo` imports it inside a function.

sampling     through `rollout_func`, so that it can be replayed from the tape and exchanged for a faster one
rounds       a forced second round is sampled when the first has run, in a group of its own: TRL normalises
             each group, which makes it "rewards normalised per round" (paper, "Recursion")
weights      0.25 on the first round's advantages; on its rewards it would cancel in that normalisation
lengths      the first iterations compare plans of one length alone, see `advantage`
rehearsal    plans by lot hold in place what a stage is not about, see `rehearsal`
spare        groups that score alike make room for spare ones (dynamic sampling)
in step      several processes ask the sampler equally often for equally many rows: it may be one for all of them (a
             vLLM server, weights in shares), which waits for each
seconds      how long sampling took, and waiting for workers, is logged with the other figures of a step
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from trl import GRPOTrainer

from conductor_plugin.receipt import RoundView
from training.advantage import within_lengths
from training.config import TrainConfig
from training.questions import Prompt, prompt_of, request_of
from training.reward import NO_FIRST_ROUND, Outcome, Rewarder, Rollout, steps_named
from training.sampled import Sample, Sampled, random_state, set_random_state
from training.tape import Tape

if TYPE_CHECKING:
    from training.rehearsal import Rehearsal

T = TypeVar("T")


class Sampler(Protocol):
    """Samples one completion for each prompt, at most `trainer.max_completion_length` tokens, the end token included.

    Prompts come repeated, `trainer.num_generations` in a row alike, but for second rounds: those are all different.
    """

    def __call__(self, prompts: list[Prompt], trainer: "ConductorTrainer") -> Sample: ...


class LogProbs(Protocol):
    """Per-token log-probabilities, [rows, kept], of the last `kept` tokens, divided by `temperature`; and entropies.

    Rows are [prompt padded left | completion padded right]; those of one group have equal prompts, in any order.
    """

    def __call__(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, kept: int, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]: ...


def plain_sampler(prompts: list[Prompt], trainer: "ConductorTrainer") -> Sample:
    """TRL's own generation, vLLM included, each prompt on its own.

    A vLLM server is sent each of them, not one a group: TRL would take the first of each `num_generations` prompts, and
    those of second rounds are all different. Its prefix cache reads equal prompts once.
    """
    prompt_ids, images, fields = trainer._tokenize_prompts(prompts)
    completion_ids, logprobs = trainer._generate_single_turn(prompt_ids, images, fields, num_generations=1)
    return Sample(prompt_ids, completion_ids, logprobs)


class ConductorTrainer(GRPOTrainer):  # type: ignore[misc]
    """See the module."""

    def __init__(
        self,
        *,
        config: TrainConfig,
        rewarder: Rewarder,
        tape: Tape,
        sampler: Sampler | None = None,
        log_probs: LogProbs | None = None,
        rehearsal: "Rehearsal | None" = None,
        **arguments: Any,
    ) -> None:
        super().__init__(rollout_func=self._roll_out, **arguments)
        self.config, self.rewarder, self.tape = config, rewarder, tape
        self.sampler: Sampler = sampler or plain_sampler
        self.log_probs, self.rehearsal = log_probs, rehearsal
        self.rows: Sequence[dict[str, Any]] = ()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.rows = inputs
        self.seconds.clear()
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        for phase, seconds in self.seconds.items():
            self._metrics["train"][f"seconds/{phase}"].append(seconds)
        if int(inputs[0]["iteration"]) < self.config.grpo.by_length:
            output["advantages"] = self._within_lengths(output["completion_ids"], output["completion_mask"])
        output["advantages"] = output["advantages"] * self._weights(inputs).to(output["advantages"].device)
        return self._without_dead_groups(output) if self.config.sampling.spare else output

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        # Once an iteration: in the last of its backward passes, whose gradients are the optimiser's.
        if self.rehearsal is None or not model.training or not self.accelerator.sync_gradients:
            return loss
        return loss + self.rehearsal.loss(model, self.processing_class, self.state.global_step)

    def _calculate_rewards(self, *arguments: Any) -> torch.Tensor:
        with self._timed("workers"):
            self.rewards: torch.Tensor = super()._calculate_rewards(*arguments)
        return self.rewards

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        """Add the wall time of what is done inside to the iteration's phase."""
        start = time.perf_counter()
        yield
        self.seconds[phase] += time.perf_counter() - start

    def _sample(self, prompts: list[Prompt]) -> Sample:
        with self._timed("generate"):
            return self.sampler(prompts, self)

    def _within_lengths(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        kept = [row[keep.bool()].tolist() for row, keep in zip(ids, mask, strict=True)]
        most = self.config.rules.max_steps
        named = [steps_named(text, most) for text in self.texts(kept)]
        # Three empty lists keep an answer; where there is none, they are no plan.
        counted = [length if length or row["round"] else -1 for length, row in zip(named, self.rows, strict=True)]
        lengths = torch.tensor(counted, device=ids.device)
        return within_lengths(self.rewards[:, 0], lengths, mask.sum(dim=1), self.num_generations)

    def _weights(self, inputs: Sequence[dict[str, Any]]) -> torch.Tensor:
        first = self.config.recursion.first_round_weight if self.config.recursion else 1.0
        return torch.tensor([first if row["forced"] and row["round"] == 0 else 1.0 for row in inputs])

    def _without_dead_groups(self, output: dict[str, Any]) -> dict[str, Any]:
        """As many groups as an iteration has questions: those that teach something first, in their order."""
        size = self.num_generations
        # Rounding leaves up to 0.001 where all rewards are equal; one that differs among 1,000 has an advantage of 30.
        dead = (output["advantages"].view(-1, size).abs() < 0.01).all(dim=1).tolist()
        chosen = sorted(range(len(dead)), key=lambda group: dead[group])[: self.config.grpo.questions]
        index = torch.tensor([group * size + i for group in sorted(chosen) for i in range(size)])
        kept = {key: value[index] if value.ndim else value for key, value in output.items()}
        return {**kept, "num_items_in_batch": kept["completion_mask"].sum()}

    def _roll_out(self, prompts: list[Prompt], _: Any) -> dict[str, Any]:
        """TRL's rollout function: the iteration from the tape, or sampled now; second rounds behind their first."""
        rows, iteration = self.rows, int(self.rows[0]["iteration"])
        offset = self.accelerator.process_index * len(rows)
        taped = self._taped(iteration)
        sampled = Sampled(len(rows), taped)
        first = [i for i, row in enumerate(rows) if row["round"] == 0]
        second = [i for i, row in enumerate(rows) if row["round"] == 1]
        outcomes: list[Outcome | None] = [None] * len(rows)
        after: list[Outcome | None] = [None] * len(rows)
        for i, outcome in self._first_rounds(sampled, first, prompts, offset, taped=bool(taped), whole=bool(second)):
            outcomes[i] = outcome
        for j in second:
            after[j] = outcomes[j - self.num_generations]
            outcomes[j] = None if after[j].view else NO_FIRST_ROUND  # type: ignore[union-attr]
        if not taped:
            self._second_rounds(sampled, second, prompts, after)
            self._fill(sampled, [j for j in second if outcomes[j] is not None])
            self.tape.write(iteration, {**sampled.as_json(), "random": random_state()})
        else:
            set_random_state(taped["random"])
        return {
            "prompt_ids": sampled.prompt_ids,
            "completion_ids": sampled.completion_ids,
            "logprobs": sampled.logprobs if sampled.logprobs[0] is not None else None,
            "text": self.texts(sampled.completion_ids),
            "place": [offset + i for i in range(len(rows))],
            "outcome": outcomes,
            "after": after,
        }

    def _taped(self, iteration: int) -> dict[str, Any]:
        """What the iteration sampled before the run was killed; nothing, if one of the processes came not so far."""
        taped = self.tape.read(iteration) or {}
        there = self.accelerator.gather(torch.tensor([len(taped)], device=self.accelerator.device))
        return taped if there.all() else {}

    def _first_rounds(
        self, sampled: Sampled, places: list[int], prompts: list[Prompt], offset: int, *, taped: bool, whole: bool
    ) -> list[tuple[int, Outcome]]:
        """Sample, so many groups at once; score what is there while the next ones are sampled.

        What the last ones come to is left to the reward function, unless second rounds need the `whole`.
        """
        size = (self.config.sampling.at_once or len(places)) * self.num_generations
        scoring: list[tuple[list[int], Any]] = []
        for start in range(0, len(places), size):
            chunk = places[start : start + size]
            if not taped:
                sampled.put(chunk, self._sample([prompts[i] for i in chunk]))
            if whole or start + size < len(places):
                texts = self.texts([sampled.completion_ids[i] for i in chunk])
                rollouts = [self._rollout(i, text, offset + i) for i, text in zip(chunk, texts, strict=True)]
                scoring.append((chunk, self.begin(self.rewarder.score(rollouts))))
        with self._timed("workers"):
            return [pair for chunk, future in scoring for pair in zip(chunk, future.result(), strict=True)]

    def _rollout(self, i: int, completion: str, place: int) -> Rollout:
        row = self.rows[i]
        return Rollout(row["question"], completion, tuple(row["workers"]), row["iteration"], place)

    def _second_rounds(
        self, sampled: Sampled, places: list[int], prompts: list[Prompt], after: Sequence[Outcome | None]
    ) -> None:
        """Sample those whose first round has an answer; with several processes all of them, to stay in step."""
        views = {j: outcome.view for j in places if (outcome := after[j]) is not None}
        chosen = [j for j in places if views[j] or self.accelerator.num_processes > 1]
        if not chosen:
            return
        asked = [self._second_prompt(j, view) if (view := views[j]) else prompts[j] for j in chosen]
        sampled.put(chosen, self._sample(asked))

    def _second_prompt(self, j: int, view: RoundView) -> Prompt:
        row = self.rows[j]
        question = self.rewarder.questions[row["question"]]
        pool = self.rewarder.offered(question, row["workers"])
        return prompt_of(request_of(question, pool, self.config.rules, (view,), answered=True), self.config.prompt)

    def _fill(self, sampled: Sampled, chosen: list[int]) -> None:
        """Rows of second rounds whose first has no answer: an end token that earns nothing and teaches nothing."""
        for j in chosen:
            sampled.prompt_ids[j] = sampled.prompt_ids[j - self.num_generations]
            sampled.completion_ids[j] = [self.eos_token_ids[0]]
            sampled.logprobs[j] = None if sampled.logprobs[j - self.num_generations] is None else [0.0]

    def texts(self, completion_ids: list[list[int]]) -> list[str]:
        """The completions as text, as TRL hands them to the reward."""
        texts: list[str] = self.processing_class.batch_decode(completion_ids, skip_special_tokens=True)
        return texts

    def begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start it on the loop that TRL runs rewards in, so that the pool's limits and clients are the same ones."""
        return asyncio.run_coroutine_threadsafe(work, self.async_loop)

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int, **options: Any
    ) -> tuple[Any, Any, Any]:
        if self.log_probs is None:
            found: tuple[Any, Any, Any] = super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, **options
            )
            return found
        with self.accelerator.autocast():
            logps, entropies = self.log_probs(model, input_ids, attention_mask, logits_to_keep, self.temperature)
        return logps, entropies if options.get("compute_entropy") else None, None
