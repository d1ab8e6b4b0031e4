"""A view of a tensor leads to the tensor's whole memory, as on a GPU, and a warning says so."""

import warnings
from typing import Any

import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret.memory import IllegalAccess, OutsideOfView

torch: Any = pytest.importorskip("torch")


@tawa.jit
def moved(x, by, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i + by))


@tawa.jit
def filled(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 7)


def tensor(dtype: Any = torch.float32) -> Any:
    """Numbers from 0 on, of which `[32:64]` is the view that kernels get."""
    return torch.arange(128).to(dtype)


@pytest.mark.parametrize("by", [-32, 1, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_memory_outside_of_a_view_is_read(by: int, dtype: Any) -> None:
    x = tensor(dtype)
    with pytest.warns(OutsideOfView, match="`x` is a view, and a program reads memory"):
        moved[(1,)](x[32:64], by, 32)
    expected = tensor(dtype)
    expected[32:64] = 2 * tensor(dtype)[32 + by : 64 + by]
    assert torch.equal(x, expected)


def test_memory_outside_of_a_view_is_written() -> None:
    x = tensor()
    with pytest.warns(OutsideOfView, match="a program writes memory"):
        filled[(1,)](x[32:64], 64)
    assert x.eq(7).nonzero().ravel().tolist() == [7, *range(32, 96)]


def test_within_a_view_there_is_no_warning() -> None:
    x = tensor()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moved[(1,)](x[32:64], 16, 16)
        moved[(1,)](x.view(8, 16)[:, ::2], 2, 32)
    assert float(x[32]) == 2 * 48


@pytest.mark.parametrize("by", [-33, 65])
def test_the_tensors_own_memory_ends(by: int) -> None:
    with pytest.raises(IllegalAccess, match="memory outside of `x`"):
        moved[(1,)](tensor()[32:64], by, 32)


def test_a_view_of_an_array_is_all_that_there_is() -> None:
    """An array of NumPy is looked at by itself: what lies around it is not its own."""
    with pytest.raises(IllegalAccess, match="memory outside of `x`"):
        moved[(1,)](tensor().numpy().copy()[32:64], 1, 32)
