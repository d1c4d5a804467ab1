"""A tokenizer and a small Llama from nothing. Imports tokenizers and transformers inside the functions.

The tokenizer is a byte-level BPE that takes digits one by one. Its merges are counted here: the library's own
training breaks ties by the order of a hash table, which differs from run to run.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from training.config import Scratch

PAD, END = "<pad>", "<end>"
Pair = tuple[str, str]


def make_tokenizer(texts: Iterable[str], vocabulary: int, whole: Sequence[str] = ()) -> Any:
    """A `PreTrainedTokenizerFast` of at most `vocabulary` tokens, the same for the same texts in any order.

    `whole` are texts that are one token wherever they stand: what every plan repeats costs nothing to learn then.

    ValueError if the vocabulary has no room for all bytes and the two special tokens.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    first = [PAD, END, *alphabet, *whole]
    if vocabulary < len(first):
        raise ValueError(f"a byte-level vocabulary has {len(first)} tokens at least, not {vocabulary}")
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    apart = re.compile("|".join(map(re.escape, sorted(whole, key=len, reverse=True))) or r"(?!)")
    pieces = (piece for text in texts for piece in apart.split(text))
    words = Counter(word for piece in pieces for word, _ in split.pre_tokenize_str(piece))
    merges = count_merges(words, vocabulary - len(first))
    tokens = list(dict.fromkeys([PAD, END, *alphabet, *(left + right for left, right in merges)]))
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = split
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in whole])
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False
    )


def count_merges(words: Counter[str], most: int) -> list[Pair]:
    """The merges of byte pair encoding: the most frequent pair each time, of equal ones the first by its letters."""
    spelled = {word: tuple(word) for word in words}
    merges: list[Pair] = []
    while len(merges) < most:
        pairs: Counter[Pair] = Counter()
        for word, symbols in spelled.items():
            for pair in itertools.pairwise(symbols):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        spelled = {word: _merged(symbols, best) for word, symbols in spelled.items()}
    return merges


def _merged(symbols: Sequence[str], pair: Pair) -> tuple[str, ...]:
    if pair[0] not in symbols:
        return tuple(symbols)
    merged: list[str] = []
    for symbol in symbols:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return tuple(merged)


def make_model(size: Scratch, tokenizer: Any, seed: int) -> Any:
    """A `LlamaForCausalLM` with random weights, the embedding tied to the head."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=size.hidden,
            intermediate_size=size.hidden * 8 // 3,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
