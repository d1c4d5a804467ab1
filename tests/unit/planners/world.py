"""A planted world: questions of three topics, and workers who each know one of them. Nobody knows more than 40 %."""

from random import Random

from conductor_plugin.conduct import conduct
from conductor_plugin.context import WorkerRequest
from conductor_plugin.planners.base import Planner
from conductor_plugin.planners.trained.attempt import Outcome
from conductor_plugin.planners.trinity import SUBTASKS
from conductor_plugin.pool import pool_from

TOPICS = {
    "garden": ["rose", "tulip", "soil", "seed", "compost", "prune", "lawn", "hedge"],
    "harbour": ["ship", "anchor", "tide", "mast", "cargo", "sail", "dock", "crane"],
    "kitchen": ["oven", "dough", "pepper", "broth", "whisk", "simmer", "pan", "butter"],
}
# What the worker says of a topic that it knows; of others it says no.
KNOWN = "certainly yes"


async def expert(request: WorkerRequest, topic: str) -> str:
    """Right on its topic, as a verifier too; as a thinker it is of no help."""
    if request.subtask == SUBTASKS["thinker"]:
        return "hm"
    knows = topic_of(request.question) == topic
    if request.subtask == SUBTASKS["verifier"]:
        right = KNOWN in request.seen[-1].output
        return "ACCEPT" if right or not knows else "REVISE"
    return KNOWN if knows else "no idea"


POOL = pool_from(
    {
        "workers": [
            {
                "name": f"expert-{i}",
                "kind": "tests.unit.planners.world:expert",
                "params": {"topic": topic},
                "describe": f"good at some things, variant {i}",
            }
            for i, topic in enumerate(TOPICS)
        ]
    }
)


def questions(count: int, seed: int) -> list[str]:
    """Questions of a few topic words among filler, the topics taking turns."""
    draw = Random(seed)
    filler = ["please", "tell", "me", "whether", "the", "old", "and", "new", "one", "could", "be", "near"]
    made = []
    for i in range(count):
        words = draw.sample(list(TOPICS.values())[i % len(TOPICS)], 3) + draw.sample(filler, 5)
        draw.shuffle(words)
        made.append(" ".join(words))
    return made


TRAINING, HELD_OUT = questions(90, seed=1), questions(60, seed=2)


def topic_of(question: str) -> str:
    """Which topic's words are in the question."""
    return next(topic for topic, words in TOPICS.items() if set(words) & set(question.split()))


async def attempt(question: str, planner: Planner) -> Outcome:
    """Run the planner through the real executor and grade the answer."""
    answer = await conduct(question, pool=POOL, planner=planner)
    assert answer.status == "completed", answer.error
    return Outcome(solved=float(KNOWN in (answer.answer or "")))


async def accuracy(planner: Planner, asked: list[str]) -> float:
    """The share of questions that the planner's runs solve."""
    outcomes = [await attempt(question, planner) for question in asked]
    return sum(outcome.solved or 0.0 for outcome in outcomes) / len(outcomes)
