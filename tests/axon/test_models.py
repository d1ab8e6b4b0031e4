"""The example models' results, against the same models in NumPy."""

from __future__ import annotations

from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tawa import axon
from tawa.axon.typing.errors import ContractViolation

EXAMPLES = Path(__file__).parents[2] / "examples" / "axon"


@pytest.fixture
def normal() -> Any:
    return np.random.default_rng(0).standard_normal


def load(name: str) -> axon.LoadedModule:
    return axon.load(EXAMPLES / f"{name}.ax")


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(erf)(x / 2**0.5))


def layer_norm(scale: np.ndarray, offset: np.ndarray, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + offset


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = False) -> np.ndarray:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:])) > 0, scores, -np.inf)
    return softmax(scores) @ v


def heads(x: np.ndarray, h: int) -> np.ndarray:
    b, t, d = x.shape
    return x.reshape(b, t, h, d // h).transpose(0, 2, 1, 3)


def joined(x: np.ndarray) -> np.ndarray:
    b, h, t, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, t, h * d)


def test_gpt2(normal: Any):
    d, t, width = 12, 5, 20
    projections = (normal((d, 3 * d)), normal(3 * d), normal((d, d)), normal(d))
    hidden = (normal((d, width)), normal(width), normal((width, d)), normal(d))
    one, two, last = ((normal(d), normal(d)) for _ in range(3))
    embedding, positions = normal((7, d)), normal((t, d))
    tokens = np.arange(2 * t).reshape(2, t) % 7
    found = load("gpt2")["gpt2"](
        embedding, positions, (one, projections, two, hidden), last, tokens, h=3
    )
    x = embedding[tokens] + positions
    q, k, v = np.split(layer_norm(*one, x) @ projections[0] + projections[1], 3, -1)
    o = joined(attention(heads(q, 3), heads(k, 3), heads(v, 3), causal=True))
    x = x + o @ projections[2] + projections[3]
    x = x + gelu(layer_norm(*two, x) @ hidden[0] + hidden[1]) @ hidden[2] + hidden[3]
    np.testing.assert_allclose(found, layer_norm(*last, x) @ embedding.T, atol=1e-10)


def convolved(x: np.ndarray, w: np.ndarray, dilation: int = 1) -> np.ndarray:
    length = x.shape[-1] - dilation * (w.shape[-1] - 1)
    parts = (x[..., i * dilation : i * dilation + length] for i in range(w.shape[-1]))
    return np.sum([np.einsum("bct,oc->bot", x, w[..., i]) for i, x in enumerate(parts)], 0)


def test_wavenet(normal: Any):
    layers = [tuple(normal(s) for s in ((4, 3, 2), (4, 3, 2), (3, 4, 1), (5, 4, 1)))
              for _ in range(3)]  # fmt: skip
    x, total = normal((2, 3, 11)), np.zeros((2, 5, 11))
    found = load("wavenet")["stack"](*layers, (x, total))
    for dilation, (f, g, residual, output) in zip((1, 2, 4), layers, strict=True):
        early = np.pad(x, ((0, 0), (0, 0), (dilation, 0)))
        z = np.tanh(convolved(early, f, dilation)) * sigmoid(convolved(early, g, dilation))
        x, total = x + convolved(z, residual), total + convolved(z, output)
    np.testing.assert_allclose(found[0], x, atol=1e-10)
    np.testing.assert_allclose(found[1], total, atol=1e-10)
    with pytest.raises(ContractViolation):  # a kernel of 3 would shorten the signal
        load("wavenet")["layer"](tuple(normal(s) for s in ((4, 3, 3), (4, 3, 3), (3, 4, 1),
                                 (5, 4, 1))), (x, total), dilation=2)  # fmt: skip


def gated(weights: Any, h: np.ndarray, xs: np.ndarray) -> np.ndarray:
    wz, wr, wh, uz, ur, uh = weights
    states: list[np.ndarray] = []
    for x in xs:
        z, r = sigmoid(x @ wz + h @ uz), sigmoid(x @ wr + h @ ur)
        h = (1 - z) * np.tanh(x @ wh + (r * h) @ uh) + z * h
        states.append(h)
    return np.stack(states)


def test_recurrent(normal: Any):
    module = load("recurrent")
    weights = tuple(normal(s) for s in [(3, 4)] * 3 + [(4, 4)] * 3)
    h, xs = normal((2, 4)), normal((6, 2, 3))
    backward = gated(weights, h, xs[::-1])[::-1]
    expected = np.concatenate([gated(weights, h, xs), backward], -1)
    np.testing.assert_allclose(module["both_ways"](weights, weights, h, xs), expected, atol=1e-12)
    a, state, x = -np.abs(normal((3, 4))), np.zeros((2, 3, 4)), normal((2, 5, 3))
    steps, into, out = normal((3, 3)), normal((3, 4)), normal((3, 4))
    last, ys = module["selective"](a, (steps, into, out), state, x)
    for t in range(5):
        now = x[:, t]
        step = np.log1p(np.exp(now @ steps))
        state = np.exp(step[..., None] * a) * state
        state = state + (step * now)[..., None] * (now @ into)[:, None]
        np.testing.assert_allclose(ys[:, t], (state * (now @ out)[:, None]).sum(-1), atol=1e-10)
    np.testing.assert_allclose(last, state, atol=1e-10)


def test_decoding(normal: Any):
    module = load("decoding")
    angles, x = normal((5, 2)), normal((2, 3, 5, 4))
    turned = (x[..., :2] + 1j * x[..., 2:]) * np.exp(1j * angles)
    expected = np.concatenate([turned.real, turned.imag], -1)
    np.testing.assert_allclose(module["rotate"](angles, x), expected, atol=1e-12)
    h, g, d, width = 2, 3, 4, 6
    wq, wk, wv = normal((width, h * g * d)), normal((width, h * d)), normal((width, h * d))
    wo, x = normal((h * g * d, width)), normal((2, 5, width))
    found = module["grouped"](wq, wk, wv, wo, x, h=h, g=g)
    k, v = (np.repeat(heads(x @ w, h), g, axis=1) for w in (wk, wv))
    expected = joined(attention(heads(x @ wq, h * g), k, v)) @ wo
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_vision(normal: Any):
    module = load("vision")
    x = normal((2, 12, 3, 4))
    expected = x.reshape(2, 3, 2, 2, 3, 4).transpose(0, 1, 4, 2, 5, 3).reshape(2, 3, 6, 8)
    np.testing.assert_array_equal(module["shuffle"](x, r=2), expected)
    w, class_, positions = normal((5, 3, 4, 4)), normal(5), normal((7, 5))
    image = normal((2, 3, 8, 12))
    cut = image.reshape(2, 3, 2, 4, 3, 4).transpose(0, 2, 4, 1, 3, 5).reshape(2, 6, 48)
    tokens = cut @ w.reshape(5, 48).T
    expected = np.concatenate([np.tile(class_, (2, 1, 1)), tokens], 1) + positions
    np.testing.assert_allclose(module["patches"](w, class_, positions, image, p=4), expected,
                               atol=1e-10)  # fmt: skip


def test_representation(normal: Any):
    module = load("representation")
    book, x = normal((6, 3)), normal((2, 4, 3))
    codes = ((x[..., None, :] - book) ** 2).sum(-1).argmin(-1)
    found, numbers = module["quantise"](book, x)
    np.testing.assert_array_equal(numbers, codes)
    np.testing.assert_array_equal(found, book[codes])
    x, source, target = normal((5, 3)), np.arange(8) % 5, np.arange(8) * 2 % 5
    one, two = normal((3, 4)), normal((3, 4))
    sums = np.zeros((5, 4))
    np.add.at(sums, target, (x @ one)[source])
    x, one, two = (a.astype(np.float32) for a in (x, one, two))
    found = module["messages"](one, two, source, target, x, n=5)
    np.testing.assert_allclose(found, np.maximum(x @ two + sums, 0), atol=1e-5)
