"""The prompt of a small trained planner: the question and what is open, no instructions and no examples.

What the full prompt explains, such a planner has learnt in its cold start. Inference and training build it with
this code alone.
"""

from conductor_plugin.context import NO_ANSWER
from conductor_plugin.planners.base import PlanRequest


def build_short_prompt(request: PlanRequest) -> str:
    """One text: the question, how many models and steps there are, what the last round left."""
    rules = request.rules
    lines = [f"question: {request.question}", f"models: {rules.workers} steps: {rules.max_steps}"]
    if rules.conductor:
        lines.append(f"conductor: {rules.workers}")
    if request.earlier:
        view = request.earlier[-1]
        lines.append(f"planned: {list(view.plan.model_id)}")
        lines += [f"output {seen.index}: {seen.output if seen.output.strip() else NO_ANSWER}" for seen in view.outputs]
    return "\n".join(lines) + "\nplan:\n"
