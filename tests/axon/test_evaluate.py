"""Execution on NumPy: examples against hand-written NumPy, and contracts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tawa import axon
from tawa.axon.typing.errors import ContractViolation, RunTimeError, StaticArgumentError
from tawa.functional.errors import ProgramTooDeep

EXAMPLES = Path(__file__).parents[2] / "examples" / "axon"
generator = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray:
    return generator.standard_normal(shape)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_mlp_at_any_rank():
    mlp = axon.load(EXAMPLES / "mlp.ax")["mlp"]
    layers = [(array(3, 8), array(8)), (array(8, 8), array(8)), (array(8, 2), array(2))]
    for lead in [(), (5,), (2, 5)]:
        x = array(*lead, 3)
        y = x
        for index, (w, b) in enumerate(layers):
            y = y @ w + b
            y = np.maximum(y, 0) if index < 2 else y
        np.testing.assert_allclose(mlp(*layers, x), y)


def test_cross_entropy_of_class_indices():
    cross_entropy = axon.load(EXAMPLES / "mlp.ax")["cross_entropy"]
    for lead in [(4,), (2, 4)]:
        logits = array(*lead, 10).astype(np.float32)
        labels = generator.integers(0, 10, lead)
        picked = np.take_along_axis(softmax(logits), labels[..., None], -1)
        np.testing.assert_allclose(cross_entropy(logits, labels), -np.log(picked).mean(), rtol=1e-5)


def test_lstm():
    lstm = axon.load(EXAMPLES / "lstm.ax")["lstm"]
    wx, wh, b = array(3, 20), array(5, 20), array(20)
    h, c, xs = array(2, 5), array(2, 5), array(6, 2, 3)
    (h2, c2), ys = lstm((wx, wh, b), (h, c), xs)
    for t in range(6):
        i, f, g, o = np.split(xs[t] @ wx + b + h @ wh, 4, -1)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        np.testing.assert_allclose(ys[t], h)
    np.testing.assert_allclose(h2, h)
    np.testing.assert_allclose(c2, c)


def test_multi_head_attention():
    attention = axon.load(EXAMPLES / "attention.ax")["self_attention"]
    wq, wk, wv, wo = array(8, 12), array(8, 12), array(8, 6), array(6, 8)
    x = array(2, 7, 8)
    heads = [
        softmax(x @ wq[:, 4 * i : 4 * i + 4] @ (x @ wk[:, 4 * i : 4 * i + 4]).swapaxes(1, 2) / 2)
        @ (x @ wv[:, 2 * i : 2 * i + 2])
        for i in range(3)
    ]
    np.testing.assert_allclose(attention((wq, wk, wv, wo), x, h=3), np.concatenate(heads, -1) @ wo)


def test_scaled_attention_knows_the_size_it_scales_by():
    module = axon.load(EXAMPLES / "attention.ax")
    q, k, v = array(2, 3, 16), array(2, 5, 16), array(2, 5, 4)
    expected = softmax(q @ k.swapaxes(1, 2) / 4) @ v
    np.testing.assert_allclose(module["scaled_attention"](q, k, v), expected)


def test_unet_refuses_what_is_no_multiple_of_four():
    unet = axon.load(EXAMPLES / "unet.ax")["unet"]
    down = (array(4, 3, 3, 3), array(8, 4, 3, 3), array(8, 8, 3, 3))
    up = (array(4, 16, 3, 3), array(4, 8, 3, 3))
    head = array(2, 4, 1, 1)
    assert unet(down, up, head, array(1, 3, 8, 12)).shape == (1, 2, 8, 12)
    with pytest.raises(ContractViolation, match="does not fit") as raised:
        unet(down, up, head, array(1, 3, 8, 10))
    assert raised.value.expected == "f64[b, 3, 4*h, 4*w]"


def test_decoding_loop():
    generate = axon.load(EXAMPLES / "decode.ax")["generate"]
    embedding, mix = array(11, 6), array(4, 4)
    tokens = generator.integers(0, 11, (2, 4))
    expected = tokens
    for _ in range(3):
        logits = np.einsum("btd,ts->bsd", embedding[expected], mix) @ embedding.T
        expected = np.concatenate([expected[:, 1:], logits[:, -1].argmax(-1)[:, None]], 1)
    np.testing.assert_array_equal(generate(embedding, mix, tokens, n=3), expected)


def test_mixture_of_experts():
    mixture = axon.load(EXAMPLES / "experts.ax")["mixture"]
    gate, w1, w2, x = array(6, 3), array(3, 6, 5), array(3, 5, 6), array(4, 6)
    arrays = [a.astype(np.float32) for a in (gate, w1, w2, x)]
    probabilities = softmax(x @ gate)
    expected = np.zeros((4, 6))
    for token in range(4):
        for expert in np.argsort(-probabilities[token])[:2]:
            hidden = np.maximum(x[token] @ w1[expert], 0)
            expected[token] += probabilities[token, expert] * (hidden @ w2[expert])
    np.testing.assert_allclose(mixture(*arrays, k=2), expected, rtol=1e-4, atol=1e-5)


def test_resnet_and_transformer_run():
    resnet = axon.load(EXAMPLES / "resnet.ax")["resnet"]
    block = (array(4, 4, 3, 3), array(4), array(4), array(4), np.abs(array(4)))
    result = resnet(array(4, 3, 3, 3), block, block, block, (array(4, 7), array(7)),
                    array(2, 3, 6, 5))  # fmt: skip
    assert result.shape == (2, 7)
    transformer = axon.load(EXAMPLES / "transformer.ax")["transformer"]
    layer = (array(8), tuple(array(8, 8) for _ in range(4)), array(8),
             (array(8, 16), array(8, 16), array(16, 8)))  # fmt: skip
    tokens = generator.integers(0, 11, (2, 5))
    embedding, norm = array(11, 8), array(8)
    logits = transformer(embedding, layer, layer, norm, tokens, h=2)
    assert logits.shape == (2, 5, 11)
    tokens[:, -1] = 0
    changed = transformer(embedding, layer, layer, norm, tokens, h=2)
    np.testing.assert_allclose(changed[:, :-1], logits[:, :-1])


def test_broadcast_condition_is_checked_at_the_call():
    f = axon.load("def f (x: f64[b, 3]) (y: f64[c, 3]) = x + y")["f"]
    assert f(array(1, 3), array(4, 3)).shape == (4, 3)
    with pytest.raises(ContractViolation) as raised:
        f(array(2, 3), array(4, 3))
    assert "`+`: [2, 3] does not fit [4, 3]" in str(raised.value)


def test_values_decide_some_checks():
    f = axon.load("def f x i = take x i")["f"]
    assert f(array(3, 2), np.array([2, 0])).shape == (2, 2)
    with pytest.raises(RunTimeError, match="index") as raised:
        f(array(3, 2), np.array([3]))
    assert raised.value.span is not None


def test_static_arguments():
    module = axon.load("def f{n, m = 2} x = (reshape{[n, m, _]} x, dim{n*m} * 2)")
    first, second = module["f"](array(12), n=3)
    assert first.shape == (3, 2, 2)
    assert second == 12
    with pytest.raises(StaticArgumentError):
        module["f"](array(12), k=3)
    with pytest.raises(RunTimeError, match="not determined"):
        axon.load("def f{n} x = x + full{[n]} 1.0")["f"](array(4))


def test_local_polymorphism_passes_sizes():
    text = """
def f (x: f64[a, b]) (y: f64[c, d]) =
  let scaled (u: f64[m, n]) = u / dim{n} in
  (scaled x, scaled x)
"""
    one, _ = axon.load(text)["f"](np.ones((2, 4)), np.ones((3, 5)))
    np.testing.assert_allclose(one, np.full((2, 4), 0.25))


def test_control_flow_and_datatypes():
    text = """
data Shape = Circle(f64[]) | Square(f64[])
def area s = match s with Circle r -> r * r * 3.0 | Square a -> a * a end
def f x = if sum_all x > 0.0 then area (Circle (sum_all x)) else area (Square (sum_all x))
def count x = (while (fn (i, y) -> sum_all y < 100.0) (fn (i, y) -> (i + 1, y * 2.0)) (0, x)).0
"""
    module = axon.load(text)
    assert module["f"](np.array([1.0, 1.0])) == 12
    assert module["f"](np.array([-1.0, -1.0])) == 4
    assert module["count"](np.array([1.0, 1.0])) == 6


def test_deep_nesting_and_endless_recursion():
    nested = "relu (" * 800 + "x" + ")" * 800
    assert axon.load(f"def f x = {nested}")["f"](array(3)).shape == (3,)
    with pytest.raises(ProgramTooDeep):
        axon.load("def f x = f x")["f"](array(3))


def test_torch_like_arrays_are_taken():
    class Foreign:
        def detach(self) -> Foreign:
            return self

        def cpu(self) -> Foreign:
            return self

        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return np.ones((2, 3))

    f = axon.load("def f x = sum x")["f"]
    np.testing.assert_allclose(f(Foreign()), [3, 3])


def test_a_product_with_stacks_where_the_program_says_so():
    module = axon.load("""
def stacks x (w: f64[b, k, n]) = x @ w
def turned x w = (x @ w, rearrange{"a b c -> c a b"} w)
def matrix x w = x @ w
""")
    assert module["stacks"].type == (
        "f64[..s, a, k] -> f64[b, k, n] -> f64[..r, a, n] where [..r] = [..s] & [b]"
    )
    assert module["matrix"].type == "t[..s, k] -> t[k, n] -> t[..s, n] where num t"
    x, w = array(5, 4, 3), array(5, 3, 2)
    np.testing.assert_allclose(module["stacks"](x, w), x @ w)
    np.testing.assert_allclose(module["turned"](x[0], w)[0], x[0] @ w)
    with pytest.raises(ContractViolation):
        module["matrix"](x, w)


def test_casts_to_the_element_type_that_an_annotation_names() -> None:
    module = axon.load(
        "def count (x: t[..s, n]) = sum x / cast{t} (dim{n})\n"
        "def both (a: f16[n]) (b: f32[n]) = (count a, count b)\n"
        "def wide (x: t[n]) = cast{t} (cast{f64} x * 2.0)"
    )
    found = module["both"](np.ones(4, np.float16), np.ones(4, np.float32))
    assert [str(x.dtype) for x in found] == ["float16", "float32"]
    assert module["wide"](np.ones(2, np.int8)).dtype == np.int8
    for text, hint in (("cast{float16} x", "did you mean `f16`"), ("cast{t} x", "name it"),
                       ("cast{n} (x .+ zeros{[n]})", "a size here")):  # fmt: skip
        with pytest.raises(StaticArgumentError, match=hint):
            axon.load(f"def f (x: f32[n]) = {text}")


def test_bf16_is_computed_in_f32_and_rounded():
    import ml_dtypes

    x = np.linspace(-3, 3, 40, dtype=np.float32).reshape(5, 8)
    w = np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3)
    module = axon.load("""
def f x w = softmax (cast{bf16} x @ w)
def back x = cast{f32} (cast{bf16} x)
def slope x = grad (fn x -> sum_all (x * x * 0.5)) x
def most x = argmax{axis = 0} x
""")
    narrow = w.astype(ml_dtypes.bfloat16)
    found = module["f"](x, narrow)
    exact = x.astype(ml_dtypes.bfloat16).astype(np.float32) @ narrow.astype(np.float32)
    powers = np.exp(exact - exact.max(-1, keepdims=True))
    assert found.dtype == ml_dtypes.bfloat16
    expected = powers / powers.sum(-1, keepdims=True)
    assert np.allclose(found.astype(np.float32), expected, atol=2e-2)
    assert module["back"](x).dtype == np.float32
    assert np.array_equal(module["slope"](narrow), narrow)
    assert module["most"](narrow).dtype == np.int64


def test_bf16_tensors_of_pytorch_come_back_as_such():
    torch = pytest.importorskip("torch")
    x = torch.linspace(-2, 2, 9, dtype=torch.bfloat16, requires_grad=True)
    y = axon.load("def f x = x * x")["f"](x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == torch.bfloat16
    assert torch.equal(x.grad, 2 * x.detach())
