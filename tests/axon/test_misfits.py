"""Calls that don't fit say where in the body; sizes that gave way to others; groups of channels."""

from __future__ import annotations

import numpy as np
import pytest

from tawa import axon
from tawa.axon.typing.errors import ContractViolation, UnsupportedModel

BLOCK = """
def shortcut{stride} w x = conv2d{stride = stride} x w
def branch{stride, pad = 1} w x = relu (conv2d{stride = stride, pad = pad} x w)
def block{stride} w1 w2 x = branch{stride} w1 x .+ shortcut{stride} w2 x
def classify{stride} (w1, w2) head x =
  let y = block{stride} w1 w2 x in
  global_mean y @ head
"""


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def refused(text: str, name: str, *arguments: object, **statics: int) -> ContractViolation:
    with pytest.raises(ContractViolation) as error:
        axon.load(text)[name](*arguments, **statics)
    return error.value


def test_a_call_that_does_not_fit_points_at_the_operator_with_actual_sizes() -> None:
    error = refused(BLOCK, "block", ones(4, 3, 5, 5), ones(4, 3, 1, 1), ones(2, 3, 8, 8), stride=2)
    note = error.notes[-1]
    assert "argument 2 of `.+`: [2, 4, 3, 3] does not fit [2, 4, 4, 4]" in note.text
    assert note.span is not None
    assert note.span.line == 4


def test_the_place_is_followed_into_the_definition_that_is_called() -> None:
    weights = (ones(4, 3, 3, 3), ones(4, 2, 1, 1))
    error = refused(BLOCK, "classify", weights, ones(4, 5), ones(2, 3, 8, 8), stride=2)
    places = [(n.text, n.span.line) for n in error.notes if n.span is not None]
    assert "[o, 3, k, l] does not fit [4, 2, 1, 1]" in places[-3][0]
    assert [line for _, line in places[-3:]] == [2, 4, 6]


def test_the_place_of_a_wrong_static_argument() -> None:
    text = 'def f{h} x w = rearrange{"t (h d) -> h t d", h = h} x @ w'
    error = refused(text, "f", ones(4, 6), ones(3, 2), h=4)
    assert "rearrange" in error.notes[-1].text


def test_a_static_size_whose_variable_gave_way_to_another() -> None:
    """The size of `split`'s operand is a sum here, of which one part is the static argument."""
    function = axon.load("""
def f{r} w (v, b) x =
  let low, _ = split{r} (x @ w) in
  linear v b low
""")["f"]
    assert function(ones(6, 8), (ones(2, 6), ones(6)), ones(5, 6), r=2).shape == (5, 6)


def test_channels_in_groups() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 6, 7)), rng.standard_normal((4, 3, 3))
    module = axon.load("""
def grouped{g} w x = conv1d{pad = 1, groups = g} x w
def apart w x = conv1d{pad = 1} x w
def deep w (x: t[b, c, ..s]) = conv2d{groups = c} x w
""")
    parts = [module["apart"](w[2 * g : 2 * g + 2], x[:, 3 * g : 3 * g + 3]) for g in range(2)]
    np.testing.assert_allclose(module["grouped"](w, x, g=2), np.concatenate(parts, 1))
    filters, image = rng.standard_normal((3, 1, 2, 2)), rng.standard_normal((1, 3, 4, 5))
    windows = np.lib.stride_tricks.sliding_window_view(image, (2, 2), axis=(2, 3))
    expected = np.einsum("bchwkl,ckl->bchw", windows, filters[:, 0])
    np.testing.assert_allclose(module["deep"](filters, image), expected)
    error = refused("def f w x = conv2d{groups = 2} x w", "f", ones(4, 3, 1, 1), ones(1, 4, 2, 2))
    assert "`conv2d`" in error.notes[-1].text


def test_a_transposed_convolution_without_its_edges() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((2, 3, 3, 4)), rng.standard_normal((3, 2, 4, 4))
    module = axon.load("def f x w = up{stride = 2} x w\ndef g x w = up{stride = 2, pad = 1} x w")
    whole, inner = module["f"](x, w), module["g"](x, w)
    assert inner.shape == (2, 2, 6, 8)
    np.testing.assert_array_equal(inner, whole[:, :, 1:-1, 1:-1])


def test_a_size_that_broadcasting_leaves_open_is_one() -> None:
    text = "def f v (y: t[b, c, h]) = concat{axis = 1} y (broadcast{[b, _, h]} (expand{2} v))"
    assert axon.load(text)["f"](ones(2, 4), ones(2, 3, 5)).shape == (2, 7, 5)


@pytest.mark.parametrize(
    ("body", "shapes", "help_"),
    [
        ("x @ y", [(2, 3), (4, 3)], "`transpose`"),
        ("x @ y", [(2, 3), (3,)], "sum (x * v)"),
        ("x .+ y", [(2, 3, 4), (4, 2, 3)], '`rearrange{"a b c -> b c a"}`'),
        ("x + y", [(2, 3, 4, 5), (2, 3)], "`expand{-1}` adds one of size 1 behind (2 here)"),
        ("x .* y", [(2, 3), (3,)], "`expand{axis}`"),
        ("x .* y", [(2,), (2, 1)], "`squeeze{axis}`"),
        ("reshape{[b, 4]} x + y", [(2, 3), (2, 4)], "`_` is a size that follows"),
        ("max_pool x + y", [(1, 1, 1, 1), (1,)], None),
    ],
)
def test_what_to_do(body: str, shapes: list[tuple[int, ...]], help_: str | None) -> None:
    text = f"def f {'(x: t[b, ?k])' if 'reshape' in body else 'x'} y = {body}"
    error = refused(text, "f", *(ones(*shape) for shape in shapes))
    assert error.hint is None if help_ is None else help_ in (error.hint or "")


def test_sizes_are_given_for_inputs_that_a_model_has() -> None:
    from onnx import TensorProto, helper

    scale = helper.make_tensor("s", TensorProto.FLOAT, [6], [1.0] * 6)
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"], name="norm")
    declared = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "K"])
    result = helper.make_empty_tensor_value_info("y")
    model = helper.make_model(helper.make_graph([node], "g", [declared], [result], [scale]))
    assert axon.from_onnx(model).shapes().text("y") == "[N, 6]"
    with pytest.raises(UnsupportedModel, match="no input `z`"):
        axon.from_onnx(model, {"z": [1]}).shapes()
    with pytest.raises(UnsupportedModel, match="`x` has 2 sizes"):
        axon.from_onnx(model, {"x": [1]}).shapes()
