"""What a worker is shown: the question, the visible steps, its own subtask, as a conversation that providers take."""

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from conductor_plugin.context import NO_ANSWER, Message, Seen, WorkerRequest, build_messages
from tests.unit.strategies import tricky_texts

TEXTS = st.sampled_from(["", " ", "\n", "one", "two\n\nparts"]) | tricky_texts(4)
REAL_TEXTS = TEXTS.filter(str.strip)
MESSAGES = st.builds(Message, role=st.sampled_from(["system", "user", "assistant"]), content=TEXTS)


@st.composite
def requests(draw: st.DrawFn, history: int = 0) -> WorkerRequest:
    """Requests with at most so many messages of history."""
    outputs = draw(st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
    return WorkerRequest(
        question=draw(REAL_TEXTS),
        subtask=draw(TEXTS),
        seen=tuple(Seen(index=i, subtask=subtask, output=output) for i, (subtask, output) in enumerate(outputs)),
        history=tuple(draw(st.lists(MESSAGES, max_size=history))),
    )


def user(*parts: str) -> Message:
    return Message(role="user", content="\n\n".join(parts))


def assistant(content: str) -> Message:
    return Message(role="assistant", content=content)


SILENT = (Message(role="user", content="Hello"), Message(role="assistant", content=" "))


@given(requests(history=6))
@example(WorkerRequest(question="Why?", history=SILENT))
def test_roles_alternate_after_at_most_one_system_message(request: WorkerRequest) -> None:
    roles = [message.role for message in build_messages(request)]
    assert "system" not in roles[1:]
    turns = roles[1:] if roles[0] == "system" else roles
    assert all(one != next_ for one, next_ in itertools.pairwise(turns))
    assert turns[-1] == "user"


@given(requests(history=6))
def test_no_message_is_blank(request: WorkerRequest) -> None:
    assert all(message.content.strip() for message in build_messages(request))


@given(requests())
def test_the_question_opens_and_the_subtask_ends(request: WorkerRequest) -> None:
    messages = build_messages(request)
    assert messages[0].content.startswith(request.question)
    assert messages[-1].content.endswith(request.subtask if request.subtask.strip() else request.question)


@given(requests())
def test_exactly_the_visible_outputs_are_shown_in_step_order(request: WorkerRequest) -> None:
    shown = [message.content for message in build_messages(request) if message.role == "assistant"]
    assert shown == [step.output if step.output.strip() else NO_ANSWER for step in request.seen]


@given(requests(), REAL_TEXTS)
def test_each_subtask_stands_before_its_output(request: WorkerRequest, subtask: str) -> None:
    request = request.model_copy(
        update={"seen": tuple(step.model_copy(update={"subtask": subtask}) for step in request.seen)}
    )
    turns = [message.content for message in build_messages(request) if message.role == "user"]
    assert all(turn.endswith(subtask) for turn in turns[:-1])


@given(requests())
def test_the_sample_number_is_not_shown(request: WorkerRequest) -> None:
    assert build_messages(request) == build_messages(request.model_copy(update={"sample": 3}))


def test_nothing_visible_is_one_user_turn() -> None:
    assert build_messages(WorkerRequest(question="Why?", subtask="Say why.")) == [user("Why?", "Say why.")]
    assert build_messages(WorkerRequest(question="Why?")) == [user("Why?")]


def test_visible_steps() -> None:
    steps = (Seen(index=0, subtask="List.", output="a, b"), Seen(index=2, subtask="Check.", output=" "))
    assert build_messages(WorkerRequest(question="Why?", subtask="Decide.", seen=steps)) == [
        user("Why?", "List."),
        assistant("a, b"),
        user("Check."),
        assistant(NO_ANSWER),
        user("Decide."),
    ]


def test_bare_questions_in_a_row() -> None:
    """An empty turn is not allowed: the question stands in for an instruction that was the bare question."""
    steps = (Seen(index=0, subtask="", output="yes"), Seen(index=1, subtask="", output="no"))
    assert build_messages(WorkerRequest(question="Why?", subtask="", seen=steps)) == [
        *(user("Why?"), assistant("yes"), user("Why?"), assistant("no"), user("Why?")),
    ]


def test_history_comes_first_its_system_message_before_all() -> None:
    history = (
        Message(role="user", content="Hello"),
        Message(role="system", content="Be brief."),
        Message(role="assistant", content="Hi"),
    )
    assert build_messages(WorkerRequest(question="Why?", subtask="Say why.", history=history)) == [
        *(history[1], history[0], history[2], user("Why?", "Say why.")),
    ]
    told = build_messages(WorkerRequest(question="Why?", subtask="Say why.", history=history[:2]))
    assert told == [history[1], user("Hello", "Why?", "Say why.")]


@given(requests(), tricky_texts())
def test_an_output_never_becomes_a_system_message(request: WorkerRequest, output: str) -> None:
    steps = (*request.seen, Seen(index=9, subtask="", output=f"system: {output}"))
    messages = build_messages(request.model_copy(update={"seen": steps}))
    assert [m.content for m in messages if m.role == "assistant"][-1] == f"system: {output}"
    assert {message.role for message in messages} == {"user", "assistant"}
