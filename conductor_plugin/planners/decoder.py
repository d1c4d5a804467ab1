"""A causal language model in ONNX with its tokenizer: a chat becomes token ids, and token ids a completion.

The graph takes `ids` (1, n) and `past` (2 * layers, 1, heads, p, size): keys and values of the p tokens before,
layer by layer. It gives `logits` (1, vocabulary) of the token that comes next, and `present`, the cache with the
n tokens added.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conductor_plugin.chat_tokens import chat_ids, placeholder
from conductor_plugin.errors import InputError
from conductor_plugin.planners.manifest import MODEL, TEMPLATE, TOKENIZER, Prompt

if TYPE_CHECKING:
    import numpy as np

    Logits = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Decoder:
    """The loaded model. May be used in several threads at a time."""

    session: Any
    tokenizer: Any
    template: str | None
    special: Mapping[str, str]

    @staticmethod
    def load(folder: Path, special: Mapping[str, str]) -> "Decoder":
        """From a folder whose manifest was read. InputError `planner_unreadable` if a file is not what it should be."""
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        # One thread: the steps of a model this small are over before a second one has begun.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
            session = onnxruntime.InferenceSession(folder / MODEL, options, providers=["CPUExecutionProvider"])
            names = [value.name for value in (*session.get_inputs(), *session.get_outputs())]
            if names != ["ids", "past", "logits", "present"]:
                raise ValueError(f"{MODEL} has the inputs and outputs {', '.join(names)}")
        except Exception as error:  # neither library says which errors it raises
            reason = str(error).splitlines()[0]
            raise InputError(f"{folder} holds no trained Conductor: {reason}", code="planner_unreadable") from None
        tokenizer.encode_special_tokens = True  # what looks like a special token in a text is text
        template = folder / TEMPLATE
        return Decoder(session, tokenizer, template.read_text("utf-8") if template.is_file() else None, special)

    def prompt(self, prompt: Prompt) -> list[int]:
        """Token ids of a text, or of a chat up to the point where the model goes on.

        Without a chat template, a chat is its texts with blank lines between them.
        """
        if isinstance(prompt, str):
            return self._ids(prompt)
        texts = [message.content for message in prompt]
        if self.template is None:
            return self._ids("\n\n".join(texts))
        tokens = self.tokenizer.get_added_tokens_decoder().items()
        added = {token.content: int(i) for i, token in tokens if token.special}
        turns = [{"role": message.role, "content": placeholder(i)} for i, message in enumerate(prompt)]
        return chat_ids(render(self.template, turns, self.special), texts, added, self._ids)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def complete(
        self,
        prompt: Sequence[int],
        *,
        max_tokens: int,
        eos: Sequence[int],
        pick: "Callable[[Logits], int]",
        stopped: Callable[[], bool] = lambda: False,
    ) -> list[int]:
        """The tokens after the prompt, up to one of `eos` (left out), `max_tokens`, or when `stopped` says so.

        `pick` chooses a token by its logits (vocabulary,).
        """
        import numpy as np

        layers, _, heads, _, size = self.session.get_inputs()[1].shape
        past = np.zeros((layers, 1, heads, 0, size), np.float32)
        step, made = list(prompt), list[int]()
        while len(made) < max_tokens and not stopped():
            logits, past = self.session.run(None, {"ids": np.array([step], np.int64), "past": past})
            token = pick(logits[0])
            if token in eos:
                break
            made.append(token)
            step = [token]
        return made

    def text(self, ids: Sequence[int]) -> str:
        """The tokens as text, without special ones."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


def greedy(logits: "Logits") -> int:
    """The likeliest token."""
    return int(logits.argmax())


def sampler(temperature: float, seed: int) -> "Callable[[Logits], int]":
    """Draws from the softmax at a temperature, the same for the same seed."""
    import numpy as np

    draw = np.random.default_rng(seed)

    def pick(logits: "Logits") -> int:
        weights = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
        return int(draw.choice(len(weights), p=weights / weights.sum()))

    return pick


def render(template: str, turns: Sequence[Mapping[str, str]], special: Mapping[str, str]) -> str:
    """A chat template rendered as transformers does it, so far as templates of text need it."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise InputError(f"the chat template refuses this prompt: {message}", code="planner_unreadable")

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = refuse
    return environment.from_string(template).render(messages=turns, add_generation_prompt=True, **special)
