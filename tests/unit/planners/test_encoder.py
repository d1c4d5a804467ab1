"""Encoders: unit rows, likeness, and what is saved gives the same rows."""

import numpy as np
import pytest

from conductor_plugin.errors import InputError
from conductor_plugin.planners.encoder import load_encoder, make_encoder

TEXTS = ["the sky is blue today", "is the sky blue", "two plus two is four", "add two to four", "blue paint"]


def check(encoder, folder):
    rows = encoder.encode(TEXTS)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
    assert rows[2] @ rows[3] > rows[2] @ rows[4]
    encoder.save(folder)
    assert np.allclose(load_encoder(folder).encode(TEXTS), rows)


def test_tfidf(tmp_path):
    encoder = make_encoder("tfidf", TEXTS, 4)
    assert encoder.encode(TEXTS).shape == (5, 4)
    check(encoder, tmp_path)
    assert not encoder.encode(["", "zzz"]).any()  # nothing known: no direction, and no division by zero


def test_tfidf_has_no_more_directions_than_texts():
    assert make_encoder("tfidf", TEXTS, 64).encode(["sky"]).shape == (1, 5)


@pytest.mark.minilm
def test_minilm(tmp_path):
    encoder = make_encoder("minilm", TEXTS)
    check(encoder, tmp_path)
    assert encoder.encode(["x"]).shape == (1, 384)


@pytest.mark.local
def test_any_encoder_of_hugging_face(tmp_path):
    """A tiny BERT of random weights, from its folder: likeness means nothing here, shapes and saving do."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({word for text in TEXTS for word in text.split()})]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab_file=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    BertModel(config).save_pretrained(tmp_path / "bert")
    encoder = make_encoder(f"hf:{tmp_path / 'bert'}", [])
    rows = encoder.encode(TEXTS)
    assert rows.shape == (5, 16)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    # Padding does not count: a text alone gives the row that it gives in a batch.
    assert np.allclose(encoder.encode(TEXTS[-1:])[0], rows[-1], atol=1e-5)
    encoder.save(tmp_path / "saved")
    assert np.allclose(load_encoder(tmp_path / "saved").encode(TEXTS), rows)


def test_unknown_encoders_are_refused(tmp_path):
    with pytest.raises(InputError, match="tfidf, minilm or hf:MODEL"):
        make_encoder("word2vec", TEXTS)
    with pytest.raises(InputError, match="holds no encoder"):
        load_encoder(tmp_path)
