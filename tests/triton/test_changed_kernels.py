"""Tensors seen with another element type, and kernels whose text is replaced, without a GPU."""

from __future__ import annotations

import pytest

import tawa.language as tl
from tawa.base.errors import TawaError
from tawa.triton.kernel import jit
from tawa.triton.objects import reinterpret

torch = pytest.importorskip("torch")


@jit
def copy(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i))


def test_a_kernel_becomes_that_of_another_text():
    x, y = torch.arange(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    kernel = jit(copy.fn)
    kernel[(1,)](x, y, N=4)
    assert y.tolist() == [0, 1, 2, 3]
    kernel._unsafe_update_src(kernel.src.replace("tl.load(x + i)", "tl.load(x + i) * 5"))
    kernel[(1,)](x, y, N=4)
    assert y.tolist() == [0, 5, 10, 15]
    assert "* 5" in kernel.src
    assert "* 5" not in copy.src


@jit
def doubled(x):
    return x * 2


def test_what_calls_a_function_of_another_text_is_compiled_anew():
    helper = jit(doubled.fn)

    @jit
    def kernel(x, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(x + i, helper(tl.load(x + i)))

    x = torch.arange(4, dtype=torch.int32)
    kernel[(1,)](x, N=4)
    helper._unsafe_update_src(helper.src.replace("* 2", "* 5"))
    kernel[(1,)](x, N=4)
    assert x.tolist() == [0, 10, 20, 30]


def test_a_changed_kernel_sees_what_stood_around_it():
    factor = tl.constexpr(3)

    @jit
    def scaled(x, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(x + i, tl.load(x + i) * factor)

    x = torch.arange(4, dtype=torch.int32)
    scaled._unsafe_update_src(scaled.src.replace("* factor", "* factor + 1"))
    scaled[(1,)](x, N=4)
    assert x.tolist() == [1, 4, 7, 10]


@pytest.mark.parametrize("named", [False, True])
def test_a_name_without_a_value_is_no_matter_where_it_is_not_used(named: bool):
    if named:
        missing = tl.constexpr(9)

    @jit
    def kept(x):
        tl.store(x, tl.load(x) + missing)

    x = torch.zeros(1, dtype=torch.int32)
    kept._unsafe_update_src(kept.src if named else kept.src.replace("missing", "4"))
    kept[(1,)](x)
    assert x.tolist() == [9 if named else 4]


def test_formats_of_other_chips_are_refused():
    bits, z = torch.tensor([56, 60], dtype=torch.int8), torch.zeros(2)
    with pytest.raises(TawaError, match="not supported in this architecture"):
        copy[(1,)](reinterpret(bits, tl.float8e4b8), z, N=2)


def test_tensors_of_the_cpu_are_seen_with_other_element_types():
    x, y = torch.tensor([-1, 7], dtype=torch.int32), torch.zeros(2, dtype=torch.int64)
    copy[(1,)](reinterpret(x, tl.uint32), y, N=2)
    assert y.tolist() == [2**32 - 1, 7]
    bits, z = torch.tensor([56, 60], dtype=torch.int8), torch.zeros(2)
    copy[(1,)](reinterpret(bits, tl.float8e4nv), z, N=2)
    assert z.tolist() == [1.0, 1.5]
