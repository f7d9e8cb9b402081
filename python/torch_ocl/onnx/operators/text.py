"""Strings. They are numpy arrays of objects on the host: a device has none."""

import itertools
import re
from typing import Any

import numpy
import torch
from torch import Tensor

from ..registry import row


def _map(function: Any, x: Any, kind: Any = object) -> Any:
    flat = [function(str(text)) for text in x.reshape(-1)]
    result = numpy.empty(len(flat), dtype=kind)
    result[:] = flat
    return result.reshape(x.shape)


@row("StringConcat", 20)
def string_concat(a: Any, b: Any) -> Any:
    """a and b one behind the other."""
    x, y = numpy.broadcast_arrays(a, b)
    result = numpy.empty(x.shape, dtype=object)
    result.reshape(-1)[:] = [str(p) + str(q) for p, q in zip(x.reshape(-1), y.reshape(-1))]
    return result


@row("StringSplit", 20)
def string_split(x: Any, *, delimiter: str = "", maxsplit: int = -1, anchor: Tensor) -> Any:
    """Pieces of each string, filled up by empty ones, and how many there are."""
    pieces = [str(text).split(delimiter or None, maxsplit) for text in x.reshape(-1)]
    longest = max((len(part) for part in pieces), default=0)
    table = numpy.empty((len(pieces), longest), dtype=object)
    for index, part in enumerate(pieces):
        table[index, :] = part + [""] * (longest - len(part))
    counts = torch.tensor([len(part) for part in pieces], dtype=torch.int64).reshape(x.shape)
    return table.reshape(*x.shape, longest), counts.to(anchor.device)


@row("StringNormalizer", 10)
def string_normalizer(
    x: Any, *, case_change_action: str = "NONE", is_case_sensitive: int = 0, locale: str = "", stopwords: Any = ()
) -> Any:
    """Strings without stop words, in upper or lower case."""
    words = {word if is_case_sensitive else word.lower() for word in stopwords}
    change: Any = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}[case_change_action]
    rows = []
    for line in x.reshape(1, -1) if x.ndim == 1 else x:
        kept = [change(str(t)) for t in line if (str(t) if is_case_sensitive else str(t).lower()) not in words]
        rows.append(kept or [""])
    result = numpy.array(rows, dtype=object)
    return result.reshape(-1) if x.ndim == 1 else result


@row("RegexFullMatch", 20)
def regex_full_match(x: Any, *, pattern: str, anchor: Tensor) -> Tensor:
    """Whether the pattern matches each whole string."""
    compiled = re.compile(pattern)
    found = _map(lambda text: compiled.fullmatch(text) is not None, x, bool)
    return torch.from_numpy(found).to(anchor.device)


@row("TfIdfVectorizer", 9)
def tfidf_vectorizer(
    x: Any,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Any,
    ngram_indexes: Any,
    pool_int64s: Any = None,
    pool_strings: Any = None,
    weights: Any = None,
    anchor: Tensor,
) -> Tensor:
    """Counts (TF), presence (IDF) or both, weighted, of the n-grams of a pool, with up to max_skip_count left out."""
    pool = list(pool_strings if pool_strings is not None else pool_int64s)
    grams: dict[tuple[Any, ...], int] = {}
    starts = [*ngram_counts, len(pool)]
    number = 0
    for size, (start, end) in enumerate(itertools.pairwise(starts), 1):
        for place in range(start, end, size):
            grams[tuple(pool[place : place + size])] = number
            number += 1
    values = x if isinstance(x, numpy.ndarray) else x.cpu().numpy()
    lines = values.reshape(1, -1) if values.ndim == 1 else values
    counts = numpy.zeros((len(lines), max(ngram_indexes) + 1), dtype=numpy.float32)
    scale = numpy.ones(number, dtype=numpy.float32) if weights is None else numpy.asarray(weights, numpy.float32)
    for line, tokens in enumerate(lines.tolist()):
        for gram in _grams(tokens, min_gram_length, max_gram_length, max_skip_count):
            if gram in grams:
                counts[line, ngram_indexes[grams[gram]]] += 1
    factors = numpy.ones(counts.shape[1], dtype=numpy.float32)
    factors[list(ngram_indexes)] = scale
    if mode == "IDF":
        counts = (counts > 0) * factors
    elif mode == "TFIDF":
        counts = counts * factors
    result = torch.from_numpy(counts.astype(numpy.float32))
    return (result.reshape(-1) if values.ndim == 1 else result).to(anchor.device)


def _grams(tokens: list[Any], shortest: int, longest: int, skips: int) -> Any:
    for size in range(shortest, longest + 1):
        for step in range(1, skips + 2 if size > 1 else 2):
            for start in range(len(tokens) - step * (size - 1)):
                yield tuple(tokens[start : start + step * size : step])


@row("LabelEncoder", domain="ai.onnx.ml")
def label_encoder(
    x: Any,
    *,
    classes_strings: Any = None,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Any = None,
    keys_floats: Any = None,
    keys_int64s: Any = None,
    keys_strings: Any = None,
    keys_tensor: Any = None,
    values_floats: Any = None,
    values_int64s: Any = None,
    values_strings: Any = None,
    values_tensor: Any = None,
    anchor: Tensor,
) -> Any:
    """Each key replaced by its value."""
    if classes_strings is not None:  # opset 1: strings and their positions, in both directions
        keys_strings, values_int64s = classes_strings, list(range(len(classes_strings)))
        if not isinstance(x, numpy.ndarray):
            keys_int64s, values_strings, keys_strings, values_int64s = values_int64s, keys_strings, None, None
    keys = next(k for k in (keys_floats, keys_int64s, keys_strings, keys_tensor) if k is not None)
    values = next(v for v in (values_floats, values_int64s, values_strings, values_tensor) if v is not None)
    keys, results = (part.tolist() if hasattr(part, "tolist") else list(part) for part in (keys, values))
    if values is values_tensor:
        text = isinstance(values, numpy.ndarray)
        default = None if default_tensor is None else default_tensor.reshape(-1)[0]
        default = default if text or default is None else default.item()
        dtype = None if text else values.dtype
    elif values is values_strings:
        default, dtype = default_string, None
    else:
        is_float = values is values_floats
        default, dtype = (default_float, torch.float32) if is_float else (default_int64, torch.int64)
    table = dict(zip(keys, results))
    source = x.reshape(-1).tolist()
    flat = [table.get(key, default) for key in source]
    if dtype is None:
        result = numpy.empty(len(flat), dtype=object)
        result[:] = flat
        return result.reshape(x.shape)
    return torch.tensor(flat, dtype=dtype).reshape(tuple(x.shape)).to(anchor.device)
