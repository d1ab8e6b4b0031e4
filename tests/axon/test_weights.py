"""Weights from files and state dicts: names, sizes and element types are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tawa import axon
from tawa.axon.typing.errors import WeightMismatch

TEXT = """
def layer (w, b) x = relu (linear w b x)
def model first (w2: f32[hidden, classes]) (x: f32[..b, i]) = layer first x @ w2
"""
FUNCTION = axon.load(TEXT)["model"]


def some(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def right() -> dict[str, Any]:
    return {"first.0": some(3, 4), "first.1": some(4), "w2": some(4, 2)}


def test_weights_come_by_their_own_names_from_a_mapping_and_an_npz(tmp_path: Path):
    source = right()
    path = tmp_path / "weights.npz"
    np.savez(path, **source)
    for given in (source, path, str(path)):
        (w, b), w2 = axon.weights(FUNCTION, given)
        assert [a.shape for a in (w, b, w2)] == [(3, 4), (4,), (4, 2)]
    x = some(5, 3)
    assert np.array_equal(FUNCTION((w, b), w2, x), np.maximum(x @ w + b, 0) @ w2)


def test_names_may_be_a_tree_or_a_mapping_and_say_what_lies_transposed():
    source = {"fc1.weight": some(4, 3), "fc1.bias": some(4), "fc2.weight": some(2, 4)}
    names = (("fc1.weight.T", "fc1.bias"), "fc2.weight.T")
    by_name = {"first.0": "fc1.weight.T", "first.1": "fc1.bias", "w2": "fc2.weight.T"}
    for given in (names, by_name):
        (w, _), w2 = axon.weights(FUNCTION, source, given)
        assert np.array_equal(w, source["fc1.weight"].T)
        assert np.array_equal(w2, source["fc2.weight"].T)


def test_safetensors_are_read(tmp_path: Path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "weights.safetensors"
    numpy_files.save_file(right(), str(path))
    (w, _), _ = axon.weights(FUNCTION, path)
    assert np.array_equal(w, right()["first.0"])


def failure(source: Any, *given: Any, **options: Any) -> WeightMismatch:
    with pytest.raises(WeightMismatch) as caught:
        axon.weights(FUNCTION, source, *given, **options)
    return caught.value


def test_each_weight_that_does_not_fit_is_named_with_what_was_expected_and_found():
    error = failure({**right(), "first.1": some(5), "w2": some(4, 2).astype(np.float64)})
    assert "weight `first.1` of `model`" in error.message
    assert (error.expected, error.found) == ("f32[4]", "f32[5], as `first.1`")
    (note,) = error.notes
    assert note.text == "`w2`: expected f32[4, classes], found f64[4, 2], as `w2`"


def test_weights_that_are_missing_and_left_over_are_named():
    error = failure({"first.0": some(3, 4), "first.1": some(4), "w3": some(4, 2)})
    assert "weight `w2`" in error.message
    assert error.found == "nothing named `w2`"
    assert error.hint == "did you mean `w3`?"
    more = failure({**right(), "step": some(1)})
    assert "has not" in more.message
    assert more.found == "`step`"
    axon.weights(FUNCTION, {**right(), "step": some(1)}, strict=False)


def test_names_that_are_none_are_refused(tmp_path: Path):
    assert "has no weight `w`" in failure(right(), {"w": "w2"}).message
    assert "nested" in failure(right(), ("a", "b")).message
    assert "there are no weights" in failure(right(), data=3).message
    path = tmp_path / "weights.bin"
    path.write_bytes(b"")
    assert "can't be read" in failure(path).message


def test_static_arguments_fix_sizes():
    text = 'def f{h} (w: f32[2*h, n]) x = rearrange{"..b (h d) -> ..b h d", h = h} (x @ w)'
    function = axon.load(text)["f"]
    axon.weights(function, {"w": some(6, 9)}, h=3)
    with pytest.raises(WeightMismatch) as caught:
        axon.weights(function, {"w": some(6, 9)}, h=2)
    assert (caught.value.expected, caught.value.found) == ("f32[4, 2*d]", "f32[6, 9], as `w`")


def test_a_state_dict_of_pytorch_is_taken():
    torch = pytest.importorskip("torch")
    first, last = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2, bias=False)
    state = torch.nn.Sequential(first, last).state_dict()
    (w, b), w2 = axon.weights(FUNCTION, state, (("0.weight.T", "0.bias"), "1.weight.T"))
    x = torch.randn(5, 3)
    expected = last(torch.relu(first(x)))
    assert torch.allclose(FUNCTION((w, b), w2, x), expected, atol=1e-6)


def test_a_module_of_pytorch_trains_as_pytorch_does():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    first, last = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2, bias=False)
    plain = torch.nn.Sequential(first, torch.nn.ReLU(), last)
    names = (("0.weight.T", "0.bias"), "2.weight.T")
    own = axon.torch_module(FUNCTION, axon.weights(FUNCTION, plain.state_dict(), names))
    assert {k: tuple(v.shape) for k, v in own.state_dict().items()} == {
        "first.0": (3, 4), "first.1": (4,), "w2": (4, 2)}  # fmt: skip
    x, y = torch.randn(20, 3), torch.randn(20, 2)
    for model in (own, plain):
        optimiser = torch.optim.AdamW(model.parameters(), 0.01)
        for _ in range(5):
            optimiser.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimiser.step()
    assert torch.allclose(own(x), plain(x), atol=1e-5)
    again = axon.torch_module(FUNCTION, axon.weights(FUNCTION, plain.state_dict(), names))
    again.load_state_dict(own.state_dict())
    assert torch.equal(again(x), own(x))
    with pytest.raises(WeightMismatch):
        axon.torch_module(FUNCTION, ((x, y[0]), y))


def test_backward_goes_through_kernels_by_a_pullback():
    torch = pytest.importorskip("torch")
    from tawa.axon.gpu.autograd import through_torch

    text = "def f (w, b) table x i = (relu (linear w b x), sum_all (take table i) * 2.0, i)"
    function = axon.load(text)["f"]
    pullback = axon.compile(function).pullback

    def arrays(value: Any) -> Any:
        return tuple(map(arrays, value)) if isinstance(value, tuple) else value.numpy()

    def kernels(*given: Any) -> Any:
        return tuple(map(torch.as_tensor, pullback(*arrays(given))))

    def fresh(*shape: int) -> Any:
        return torch.tensor(some(*shape) / 10 - 1, requires_grad=True)

    index = torch.tensor([1, 1, 2])
    one, other = ((fresh(16, 8), fresh(8)), fresh(5, 4), fresh(6, 16)), None
    other = tuple(v.detach().clone().requires_grad_() for v in (*one[0], *one[1:]))
    found = through_torch(function, kernels, (*one, index), {})
    assert not found[2].requires_grad
    (found[0].sum() + found[1]).backward()
    expected = function(other[:2], *other[2:], index)
    (expected[0].sum() + expected[1]).backward()
    for a, b in zip((*one[0], *one[1:]), other, strict=True):
        assert torch.allclose(a.grad, b.grad, atol=1e-4)
