"""Plans of a model that vLLM serves, with and without the grammar: how many parse, plans and tokens a second.

    python -m tests.performance.planner_grammar --api-base http://127.0.0.1:8000/v1 --model conductor --plans 200

Both contestants are asked the same questions with the same settings through the planner `prompted`, in turns of
`--at-once` plans, so that a change of the machine's load meets both. One try a plan. Bar: with the grammar, every plan
parses.
"""

import argparse
import asyncio
import statistics
import time
from dataclasses import dataclass, field

from conductor_plugin.plan import PlanRules
from conductor_plugin.planners.base import PlanRequest, Proposal
from conductor_plugin.planners.prompted import PromptedPlanner
from conductor_plugin.pool import pool_from
from conductor_plugin.worker_spec import LLM, Grammar

POOL = pool_from({"workers": [{"name": name, "kind": name} for name in ("calculator", "number", "text")]})


@dataclass
class Tally:
    """What one contestant did: its plans' sizes, faults and seconds."""

    valid: int = 0
    tokens: int = 0
    seconds: float = 0.0
    each: list[float] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)

    def add(self, proposal: Proposal, seconds: float) -> None:
        """Count one attempt."""
        self.valid += proposal.fault is None
        self.tokens += proposal.completion_tokens or 0
        self.each.append(seconds)
        if proposal.fault:
            self.faults[proposal.fault.code] = self.faults.get(proposal.fault.code, 0) + 1

    def line(self) -> str:
        """The figures, for a person."""
        count, seconds = len(self.each), self.seconds
        faults = " ".join(f"{code} {n}" for code, n in sorted(self.faults.items()))
        return (
            f"{self.valid}/{count} parse, {count / seconds:.2f} plans/s, {self.tokens / seconds:.1f} tokens/s, "
            f"{self.tokens / count:.0f} tokens, {statistics.median(self.each):.1f} s a plan  {faults}"
        )


async def ask(planner: PromptedPlanner, number: int, rules: PlanRules, tally: Tally) -> None:
    """One plan for a question of its own."""
    question = f"What is the greatest common divisor of {17 * number + 6} and {21 * number}?"
    started = time.perf_counter()
    proposal = await planner.propose(PlanRequest(question=question, pool=POOL, rules=rules))
    tally.add(proposal, time.perf_counter() - started)


async def measure(options: argparse.Namespace) -> None:
    """Print the figures of both, and what the grammar costs."""
    params = {"max_tokens": options.max_tokens, "temperature": options.temperature}
    llm = LLM(model=f"openai/{options.model}", api_base=options.api_base, params=params)
    grammar = Grammar(reasoning=options.reasoning, subtask=options.subtask)
    common = {"llm": llm, "few_shot": "none", "timeout_seconds": 600.0}
    planners = {
        "grammar": PromptedPlanner(**common, grammar=grammar),
        "free": PromptedPlanner(**common),
    }
    rules = PlanRules(workers=len(POOL.workers), max_steps=options.max_steps)
    tallies = {name: Tally() for name in planners}
    one_token = llm.model_copy(update={"params": params | {"max_tokens": 1}})
    for planner in planners.values():  # litellm's import, the server's first use of each kind
        await ask(planner.model_copy(update={"llm": one_token}), 0, rules, Tally())
    for first in range(1, options.plans + 1, options.at_once):
        numbers = range(first, min(first + options.at_once, options.plans + 1))
        for name, planner in planners.items():
            started = time.perf_counter()
            await asyncio.gather(*(ask(planner, number, rules, tallies[name]) for number in numbers))
            tallies[name].seconds += time.perf_counter() - started
    for name, tally in tallies.items():
        print(f"{name:<8} {tally.line()}")
    per_token = {name: tally.seconds / tally.tokens for name, tally in tallies.items()}
    print(f"a token with the grammar takes {per_token['grammar'] / per_token['free']:.2f} times one without")


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--api-base", required=True, help="the server's address, with /v1")
    parser.add_argument("--model", required=True, help="the name that it serves the planner under")
    parser.add_argument("--plans", type=int, default=200, help="plans of each contestant")
    parser.add_argument("--at-once", type=int, default=16, help="plans in flight")
    parser.add_argument("--max-tokens", type=int, default=192)
    parser.add_argument("--max-steps", type=int, default=3)
    parser.add_argument("--reasoning", type=int, default=0, help="characters of reasoning that the grammar allows")
    parser.add_argument("--subtask", type=int, default=60, help="characters of an instruction that it allows")
    parser.add_argument("--temperature", type=float, default=1.0)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
