"""The parts of training: the evolution strategy, RouterDC's losses, and outcomes without a grade."""

import asyncio
from random import Random

import numpy as np
import pytest

from conductor_plugin.plan import PlanRules
from conductor_plugin.planners.base import PlanRequest
from conductor_plugin.planners.trained.attempt import Outcome
from conductor_plugin.planners.trained.cmaes import SeparableCMAES
from conductor_plugin.planners.trained.trinity import new_policy, train_trinity
from tests.unit.planners.world import POOL, TOPICS, TRAINING, topic_of


def request_of(question):
    return PlanRequest(question=question, pool=POOL, rules=PlanRules(workers=3))


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_the_evolution_finds_the_top_of_a_separable_hill(scale):
    """With axes as unlike as 1 to 10,000 in curvature, its own variances must adapt."""
    axes = np.linspace(1, scale, 10)
    target = np.arange(10) - 4.5
    search = SeparableCMAES(np.zeros(10), 0.3, 16, seed=1)
    best = -1.0
    while best < -1e-9 and search.generation < 250:
        scores = [-float(((axes * (x - target)) ** 2).sum()) for x in search.ask()]
        best = max(scores)
        search.tell(scores)
    assert search.generation < 250
    assert np.allclose(search.mean, target, atol=1e-3)
    if scale > 1:
        assert search.variance[0] > 100 * search.variance[-1]


def test_an_evolution_without_signal_keeps_its_size():
    search = SeparableCMAES(np.zeros(20), 0.03, 16, seed=0)
    random = np.random.default_rng(0)
    for _ in range(200):
        search.ask()
        search.tell(random.standard_normal(16))
    assert 0.001 < search.sigma < 1


def test_attempts_without_a_grade_count_for_nothing():
    """Half of the attempts fail for reasons of infrastructure: the same policy comes out as without them."""

    def attempt_of(broken: bool):
        async def attempt(question, planner):
            worker, _ = planner.policy(request_of(question), ())
            lost = broken and len(question) % 2
            return Outcome(solved=None if lost else float(worker == 1))

        return attempt

    for broken in (False, True):
        policy = asyncio.run(
            train_trinity(new_policy(POOL, TRAINING, size=4), TRAINING, attempt_of(broken), iterations=15, population=8)
        )
        chosen = [policy(request_of(question), ())[0] for question in TRAINING]
        assert chosen.count(1) > 80


@pytest.mark.local
def test_an_outage_teaches_masrouter_nothing():
    """No grade at all: only the autoencoders learn, and nothing becomes NaN."""
    import torch

    from conductor_plugin.planners.trained.masrouter import train_masrouter

    async def outage(question, planner):
        return Outcome(solved=None)

    cascade = asyncio.run(train_masrouter(POOL, TRAINING[:20], outage, tasks=["code"] * 20, epochs=1))
    assert all(bool(torch.isfinite(weight).all()) for weight in cascade.weights.values())


@pytest.mark.local
def test_masrouter_learns_the_kinds_of_tasks_and_the_price():
    """Labelled kinds are recognised; of two right workers the cheaper one is preferred."""
    import torch

    from conductor_plugin.planners.cascade import Encoded
    from conductor_plugin.planners.trained.masrouter import train_masrouter

    kinds = dict(zip(TOPICS, ("code", "commonsense", "math"), strict=True))
    tasks = [kinds[topic_of(question)] for question in TRAINING]

    async def attempt(question, planner):
        return Outcome(solved=1.0, cost_usd=0.005 * sum(step.worker == 0 for step in planner.steps))

    cascade = asyncio.run(train_masrouter(POOL, TRAINING, attempt, tasks=tasks, epochs=6))
    encoded = Encoded(cascade)
    with torch.no_grad():
        options = encoded.options()
        drawn = [encoded.decide(row, options, Random(i))[0] for i, row in enumerate(encoded.encode(TRAINING))]
    assert sum(draw.task == task for draw, task in zip(drawn, tasks, strict=True)) > 80
    workers = [worker for draw in drawn for worker in draw.workers]
    assert workers.count(0) < 0.25 * len(workers)


@pytest.mark.local
def test_routerdcs_worker_loss_against_a_plain_reading():
    """Loss 1 for one question, written out: K = 3 best above 0, against the 3 worst that score 0.5 at most."""
    import torch

    from conductor_plugin.planners.trained.routerdc import _workers_loss

    scores = [1.0, 0.8, 0.6, 0.4, 0.0]
    cosines = [0.1, -0.2, 0.3, 0.4, -0.5]
    expected = 0.0
    for good in (0, 1, 2):
        wrong = sum(np.exp(cosines[bad]) for bad in (3, 4))  # worker 2 is of the worst three but scores above 0.5
        expected += -np.log(np.exp(cosines[good]) / (np.exp(cosines[good]) + wrong))
    assert np.isclose(float(_workers_loss(torch.tensor([cosines]), torch.tensor([scores]))), expected, atol=1e-6)
    assert float(_workers_loss(torch.tensor([cosines]), torch.zeros(1, 5))) == 0  # nobody was right: nothing to learn


@pytest.mark.local
def test_routerdcs_question_loss_pulls_a_cluster_together():
    import torch

    from conductor_plugin.planners.trained.routerdc import _questions_loss

    clusters, batch = torch.tensor([0, 0, 1, 1]), torch.arange(4)
    together = torch.tensor([[1.0, 0], [1, 0], [-1, 0], [-1, 0]])
    mixed = torch.tensor([[1.0, 0], [-1, 0], [1, 0], [-1, 0]])
    low, high = (
        float(_questions_loss(rows, clusters, batch, torch.Generator().manual_seed(0))) for rows in (together, mixed)
    )
    assert low < high
    assert float(_questions_loss(together, torch.zeros(4), batch, torch.Generator())) == 0  # one cluster: no others
