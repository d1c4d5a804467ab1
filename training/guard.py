"""What to watch while a Conductor learns, and when to stop paying: how replications failed (baselines.md) as figures.

Pure: outcomes of an iteration in, figures out; figures of the last iterations in, a reason to pause out.
"""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from training.config import Thresholds
from training.reward import NO_FIRST_ROUND, Outcome

Figures = Mapping[str, float]


def measure(groups: Sequence[Sequence[Outcome]], workers: Sequence[str]) -> dict[str, float]:
    """The figures of one iteration; `groups` are the outcomes of the rollouts of one row each.

    Shares are of 1. `parse_rate/N` is that of completions that meant to write N steps (`reward.written_length`), and
    missing where there are none. `worker_entropy` is 1 where all workers are called alike often, 0 where only one is.
    """
    groups = [[outcome for outcome in group if outcome is not NO_FIRST_ROUND] for group in groups]
    outcomes = [outcome for group in groups for outcome in group]
    scored = [outcome for outcome in outcomes if outcome.reward is not None]
    planned = [outcome for outcome in outcomes if outcome.valid and outcome.plan is not None]
    judged = [outcome for outcome in planned if outcome.right is not None]
    rewards = [outcome.reward for outcome in scored if outcome.reward is not None]
    lengths = [len(outcome.plan.model_id) for outcome in planned if outcome.plan]
    called = Counter(worker for outcome in planned for worker in outcome.workers)
    figures = {
        "parse_rate": _share(sum(outcome.valid for outcome in outcomes), len(outcomes)),
        "right_given_valid": _share(sum(bool(outcome.right) for outcome in judged), len(judged)),
        "one_step_share": _share(lengths.count(1), len(lengths)),
        "plan_length": statistics.fmean(lengths) if lengths else 0.0,
        "worker_entropy": entropy([called[name] for name in workers]),
        "workers_extinct": float(sum(called[name] == 0 for name in workers)),
        "distinct_plans": statistics.fmean(_distinct(group) for group in groups) if groups else 0.0,
        "dead_groups": _share(sum(is_dead(group) for group in groups), len(groups)),
        "failed_share": _share(len(outcomes) - len(scored), len(outcomes)),
        "reward_mean": statistics.fmean(rewards) if rewards else 0.0,
        "reward_deviation": statistics.pstdev(rewards) if rewards else 0.0,
        "calls": float(sum(outcome.calls for outcome in outcomes)),
        "cost_usd": sum(outcome.cost_usd or 0.0 for outcome in outcomes),
        "latency_s": statistics.fmean(outcome.latency_s for outcome in planned) if planned else 0.0,
    }
    figures |= {f"parse_rate/{n}": _share(*counts) for n, counts in parsed_by_length(outcomes).items()}
    return figures | {f"worker/{name}": _share(called[name], called.total()) for name in workers}


def parsed_by_length(outcomes: Sequence[Outcome]) -> dict[int, tuple[int, int]]:
    """For each length that completions meant to have: how many of them hold a valid plan, and how many there are."""
    return counts_by_length((outcome.length, outcome.valid) for outcome in outcomes)


def counts_by_length(found: Iterable[tuple[int, bool]]) -> dict[int, tuple[int, int]]:
    """Of pairs of a length and whether it is valid: for each length, in order, the valid ones and all of them."""
    counts: dict[int, tuple[int, int]] = {}
    for length, is_valid in found:
        valid, count = counts.get(length, (0, 0))
        counts[length] = (valid + is_valid, count + 1)
    return dict(sorted(counts.items()))


def is_dead(group: Sequence[Outcome]) -> bool:
    """Whether the group's rollouts all scored alike, so that it teaches nothing."""
    return len({outcome.reward for outcome in group if outcome.reward is not None}) < 2


def entropy(counts: Sequence[int]) -> float:
    """The entropy of the shares, of that of equal shares; 0 for fewer than two of them."""
    total = sum(counts)
    if total == 0 or len(counts) < 2:
        return 0.0
    shares = [count / total for count in counts if count]
    return -sum(share * math.log(share) for share in shares) / math.log(len(counts))


def reason_to_pause(history: Sequence[Figures], thresholds: Thresholds) -> str | None:
    """A sentence if the last `window` iterations are all beyond a threshold, else None."""
    last = history[-thresholds.window :]
    if len(last) < thresholds.window:
        return None
    floors = {"parse_rate": "the parse rate", "worker_entropy": "the entropy over workers"}
    ceilings = {
        "one_step_share": "the share of one-step plans",
        "dead_groups": "the share of groups that score alike",
        "failed_share": "the share of rollouts without a reward",
    }
    for name, what in (floors | ceilings).items():
        bound = getattr(thresholds, name)
        values = [figures[name] for figures in last]
        below = name in floors
        if bound is not None and all(value < bound if below else value > bound for value in values):
            side = "below" if below else "above"
            return f"{what} was {side} {bound:g} for {len(last)} iterations, at last {values[-1]:.3f}"
    return None


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _distinct(group: Sequence[Outcome]) -> int:
    """How many different plans: workers and access, whatever their instructions say."""
    return len({(o.plan.model_id, o.plan.access_list) for o in group if o.valid and o.plan})
