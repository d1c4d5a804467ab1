"""MasRouter's network: from an encoded question to a mode, a number of agents, their roles and their workers.

As in the paper (Yue et al. 2025), questions and profile texts go through a frozen encoder and small variational
autoencoders into 64 numbers; each choice is a softmax of cosines there, with a temperature. Draws come from a
`random.Random`, so that a plan is the same for the same seed and question. torch is needed also to plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from conductor_plugin.planners.base import PlanRequest
from conductor_plugin.planners.encoder import Encoder, load_encoder, make_encoder
from conductor_plugin.planners.masrouter import MOST_AGENTS, Draw, profiles
from conductor_plugin.planners.saved import Saved, check_pool, fingerprints, folder_of, read_model, write_model
from conductor_plugin.planners.threads import one_thread
from conductor_plugin.pool import Pool

HIDDEN = 64
KINDS = ("question", "mode", "role", "worker")
# The paper's temperatures.
MODE, ROLE, WORKER = 0.8, 0.5, 1.0

Tensor = Any  # torch is not imported here


@dataclass(frozen=True)
class Cascade:
    """The weights, and the texts of the workers that it was made for."""

    encoder: Encoder
    workers: tuple[str, ...]
    worker_texts: tuple[str, ...]
    weights: dict[str, Tensor]

    def save(self, folder: Path) -> None:
        """Save it for `load`."""
        arrays = {name: weight.detach().numpy() for name, weight in self.weights.items()}
        write_model(folder, "masrouter", {"workers": self.workers, "worker_texts": self.worker_texts}, arrays)
        self.encoder.save(folder / "encoder")

    @staticmethod
    def load(folder: Path) -> "Cascade":
        """What `save` wrote. InputError `planner_unreadable` if it is not there."""
        import torch

        facts, arrays = read_model(folder, "masrouter")
        weights = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return Cascade(load_encoder(folder / "encoder"), tuple(facts["workers"]), tuple(facts["worker_texts"]), weights)


@cache
def loaded(saved: Saved) -> "Encoded":
    """The cascade in a folder; read once, its profile texts encoded once."""
    return Encoded(Cascade.load(folder_of(saved)))


def new_cascade(pool: Pool, questions: Sequence[str], encoder: str, seed: int) -> Cascade:
    """An untrained cascade. The encoder `tfidf` is fitted on the questions and all profile texts."""
    import torch

    texts = profiles()
    roles = [text for roles in texts.roles.values() for text in roles.values()]
    described = tuple(worker_text(pool, i) for i in range(len(pool.workers)))
    coder = make_encoder(encoder, [*questions, *texts.tasks.values(), *texts.modes.values(), *roles, *described])
    size = coder.encode(["x"]).shape[1]
    random = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=random) / rows**0.5

    weights = {"task.question": matrix(size, HIDDEN), "task.text": matrix(size, HIDDEN)}
    for kind in KINDS:
        weights[f"{kind}.mean"] = matrix(size, HIDDEN)
        weights[f"{kind}.variance"] = matrix(size, HIDDEN)
        weights[f"{kind}.decode"] = matrix(HIDDEN, size)
    weights |= {
        "count": matrix(2 * HIDDEN, 1),
        "roles": matrix(3 * HIDDEN, HIDDEN),
        "worker": matrix(3 * HIDDEN, HIDDEN),
    }
    # A vector of its own for each worker, added to its profile's: profiles can be equal.
    weights["workers"] = matrix(HIDDEN, len(described)).T.contiguous()
    return Cascade(coder, fingerprints(pool), described, weights)


def worker_text(pool: Pool, number: int) -> str:
    """A worker's profile: what the pool file says that it is good at, and its price; never its name."""
    worker = pool.workers[number]
    price = f"; {worker.price.input:g} and {worker.price.output:g} USD per million tokens" if worker.price else ""
    return f"{worker.describe or f'model {number}'}{price}"


@dataclass(frozen=True)
class Options:
    """The modes, the roles for each kind of task, and the workers, each a row of 64 numbers."""

    modes: Tensor
    roles: dict[str, Tensor]
    workers: Tensor


class Encoded:
    """The cascade with its profile texts encoded: what decisions are made from."""

    def __init__(self, cascade: Cascade) -> None:
        texts = profiles()
        self.cascade, self.texts, self.weights = cascade, texts, cascade.weights
        self.tasks = self.encode(list(texts.tasks.values()))
        self.modes = self.encode(list(texts.modes.values()))
        self.roles = {task: self.encode(list(roles.values())) for task, roles in texts.roles.items()}
        self.workers = self.encode(cascade.worker_texts)

    def choose(self, request: PlanRequest, draw: Random, name: str) -> Draw:
        """The choices for a question. InputError `planner_pool` if the pool is another one."""
        import torch

        check_pool(self.cascade.workers, request.pool, name)
        with torch.no_grad(), one_thread():
            return self.decide(self.encode([request.question])[0], self.options(), draw)[0]

    def encode(self, texts: Sequence[str]) -> Tensor:
        """The frozen encoder's rows."""
        import torch

        return torch.from_numpy(self.cascade.encoder.encode(texts)).float()

    def task_scores(self, question: Tensor) -> Tensor:
        """A logit for each kind of task."""
        return _cosines(question @ self.weights["task.question"], self.tasks @ self.weights["task.text"])

    def options(self) -> "Options":
        """What there is to choose from, as the weights have it now."""
        roles = {task: self.hidden("role", rows) for task, rows in self.roles.items()}
        workers = self.hidden("worker", self.workers) + self.weights["workers"]
        return Options(self.hidden("mode", self.modes), roles, workers)

    def decide(self, question: Tensor, options: "Options", draw: Random) -> tuple[Draw, Tensor]:
        """The choices for an encoded question, and the log-probability of its mode, roles and workers."""
        import torch

        weights, texts = self.weights, self.texts
        task = list(texts.tasks)[int(self.task_scores(question).argmax())]
        asked = self.hidden("question", question)
        mode, log = _choose(_cosines(asked, options.modes) / MODE, draw)
        how = torch.cat([asked, options.modes[mode]])
        agents = int(torch.clamp(torch.round(torch.sigmoid(how @ weights["count"]) * MOST_AGENTS), 1, MOST_AGENTS))
        roles = options.roles[task]
        chosen: list[int] = []
        whom: list[int] = []
        for _ in range(agents):
            before = roles[chosen].mean(0) if chosen else torch.zeros(HIDDEN)
            role, log_role = _choose(_cosines(torch.cat([how, before]) @ weights["roles"], roles) / ROLE, draw)
            context = torch.cat([how, roles[role]]) @ weights["worker"]
            worker, log_worker = _choose(_cosines(context, options.workers) / WORKER, draw)
            chosen.append(role)
            whom.append(worker)
            log = log + log_role + log_worker
        names = list(texts.roles[task])
        decided = Draw(
            task=task, mode=list(texts.modes)[mode], roles=tuple(names[i] for i in chosen), workers=tuple(whom)
        )
        return decided, log

    def hidden(self, kind: str, rows: Tensor) -> Tensor:
        """The autoencoder's means."""
        return rows @ self.weights[f"{kind}.mean"]

    def reconstruction_loss(self, kind: str, rows: Tensor, random: Any) -> Tensor:
        """The autoencoder's loss: squared error of what a sample decodes to, and divergence from a normal."""
        import torch

        mean, log_variance = self.hidden(kind, rows), rows @ self.weights[f"{kind}.variance"]
        noise = torch.randn(mean.shape, generator=random)
        decoded = (mean + noise * torch.exp(0.5 * log_variance)) @ self.weights[f"{kind}.decode"]
        divergence = -0.5 * (1 + log_variance - mean**2 - torch.exp(log_variance)).sum(-1).mean()
        return ((decoded - rows) ** 2).sum(-1).mean() + divergence


def _cosines(one: Tensor, many: Tensor) -> Tensor:
    import torch

    return torch.nn.functional.normalize(many, dim=-1) @ torch.nn.functional.normalize(one, dim=-1)


def _choose(logits: Tensor, draw: Random) -> tuple[int, Tensor]:
    """One of the options by its probability, and the log-probability of it."""
    log = logits.log_softmax(-1)
    [choice] = draw.choices(range(len(log)), weights=log.exp().tolist())
    return choice, log[choice]
