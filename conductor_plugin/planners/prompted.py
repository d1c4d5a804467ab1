"""The planner `prompted`: any litellm model with the Conductor's prompt, no training needed."""

from conductor_plugin.budget import worst_case
from conductor_plugin.context import Message, WorkerReply
from conductor_plugin.errors import TransientError, WorkerTimeout
from conductor_plugin.limits import shared_gate
from conductor_plugin.llm import complete, load, price_of
from conductor_plugin.models import Frozen
from conductor_plugin.patience import Patience
from conductor_plugin.plan import PlanRules
from conductor_plugin.plan_grammar import plan_grammar
from conductor_plugin.planners.base import PlanRequest, Proposal, read_completion
from conductor_plugin.planners.prompt import build_prompt
from conductor_plugin.policy import RetryPolicy
from conductor_plugin.worker_spec import LLM, Grammar


class PromptedPlanner(Frozen):
    """A model as the Conductor. After a faulty plan it is told what was wrong, up to `tries` times in all.

    Where it cannot be reached it is asked again up to `retries` times each time, as a worker is.

    It sees each worker's `describe` line, or with `blind` ordinals alone, as in training. With `grammar`, which vLLM
    reads, it cannot write a faulty plan unless `max_tokens` cuts it off.
    """

    llm: LLM
    blind: bool = False
    few_shot: str = "default"
    tries: int = 3
    timeout_seconds: float = 120.0
    retries: int = 3
    clearance: str | None = None
    grammar: Grammar | None = None

    @property
    def name(self) -> str:
        """The model's name."""
        return self.llm.model

    async def propose(self, request: PlanRequest) -> Proposal:
        """Ask the model once. WorkerError if it cannot be asked; a faulty plan is a proposal with a fault."""
        reply = await self._ask(self._asked(request.rules), self._messages(request))
        proposal = read_completion(reply.output, request.rules)
        return proposal.model_copy(
            update={
                "calls": 1,
                "prompt_tokens": reply.prompt_tokens,
                "completion_tokens": reply.completion_tokens,
                "cost_usd": reply.cost_usd,
            }
        )

    def worst_usd(self, request: PlanRequest) -> float:
        """The most that one attempt can cost, in USD; as `budget.worst_case`."""
        return worst_case(self.llm, price_of(self.llm), self._messages(request))

    def _messages(self, request: PlanRequest) -> list[Message]:
        return build_prompt(request, blind=self.blind, few_shot=self.few_shot)

    def _asked(self, rules: PlanRules) -> LLM:
        """The model, told by vLLM's own field which texts are plans under these rules."""
        if self.grammar is None:
            return self.llm
        grammar = plan_grammar(rules, reasoning=self.grammar.reasoning, subtask=self.grammar.subtask)
        body = {**self.llm.params.get("extra_body", {}), "structured_outputs": {"grammar": grammar}}
        return self.llm.model_copy(update={"params": {**self.llm.params, "extra_body": body}})

    async def _ask(self, llm: LLM, messages: list[Message]) -> WorkerReply:
        await load()
        entrance = shared_gate(("planner", self.llm.model, self.llm.api_base))
        async with entrance:
            try:
                async with Patience(self.timeout_seconds):
                    return await complete(llm, messages)
            except TransientError as error:
                # Prefect's task retries know no Retry-After: the next attempt waits here instead.
                if error.retry_after_s and RetryPolicy().deserves_retry(error):
                    entrance.hold(error.retry_after_s)
                raise
            except TimeoutError:
                raise WorkerTimeout(
                    f"the planner {self.name} gave no plan in {self.timeout_seconds:g} s",
                    code="planner_timeout",
                    maybe_billed=True,
                ) from None
