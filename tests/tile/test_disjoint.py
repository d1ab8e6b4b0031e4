"""`tl.assume_disjoint`: launches do not compare what it names, and the simulator does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.frontend.source.errors import BadArgument
from tawa.simulate.check.memory import check_memory
from tawa.simulate.interpret.disjoint import NotDisjoint


@tawa.jit
def running(x, y, n, N: tl.constexpr, PROMISED: tl.constexpr):
    if PROMISED:
        tl.assume_disjoint(x, y)
    at = tl.arange(0, N)
    for i in range(n):
        tl.store(y + (i + 1) * N + at, tl.load(x + i * N + at) + 1)


@tawa.jit
def promise(arguments):
    tl.assume_disjoint(arguments[0], arguments[1])


@tawa.jit
def by_a_helper(x, y, N: tl.constexpr):
    promise((x, y))
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at) + 1)


@tawa.jit
def described(x_ptr, y: Any, M, N: tl.constexpr):
    tl.assume_disjoint(x_ptr, y)
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [N, N])
    y.store([0, 0], x.load([0, 0]) + 1)


def pairs(kernel: tawa.Kernel, *types: Any, **constants: Any) -> list[tuple[str, str]]:
    """The pairs of arguments that each launch looks at."""
    return [tuple(pair) for pair in kernel.compile(*types, **constants).spec.apart]


def test_a_launch_does_not_look_at_what_is_promised() -> None:
    types = "*f32", "*f32", "i32"
    assert pairs(running, *types, N=16, PROMISED=False) == [("x", "y")]
    assert pairs(running, *types, N=16, PROMISED=True) == []
    assert pairs(by_a_helper, "*f32", "*f32", N=16) == []


def test_what_is_apart_runs() -> None:
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    running[(1,)](x, y, 3, N=16, PROMISED=True)
    np.testing.assert_array_equal(y, [0] * 16 + [2] * 48)
    both = np.ones(128, np.float32)
    running[(1,)](both[:64], both[64:], 3, N=16, PROMISED=True)
    np.testing.assert_array_equal(both[80:], 2)


def test_interleaved_columns_are_apart() -> None:
    both = np.ones(128, np.float32)
    by_a_helper[(1,)](both[:16], both[16:], N=16)
    np.testing.assert_array_equal(both[16:32], 2)


@pytest.mark.parametrize("shift", [0, 16])
def test_the_simulator_finds_a_broken_promise(shift: int) -> None:
    both = np.ones(128, np.float32)
    with pytest.raises(NotDisjoint, match=r"`x` and `y`|`y` and `x`") as caught:
        running[(1,)](both, both[shift:], 3, N=16, PROMISED=True)
    assert "tl.store" in str(caught.value) or "tl.load" in str(caught.value)


def test_the_same_without_a_promise_is_right() -> None:
    both = np.ones(128, np.float32)
    running[(1,)](both, both, 3, N=16, PROMISED=False)
    np.testing.assert_array_equal(both[:64].reshape(4, 16)[:, 0], [1, 2, 3, 4])


def test_two_programs_may_break_it_too() -> None:
    @tawa.jit
    def each(x, y, N: tl.constexpr):
        tl.assume_disjoint(x, y)
        at = tl.program_id(0) * N + tl.arange(0, N)
        tl.store(y + at, tl.load(x + at) + 1)

    both = np.ones(48, np.float32)
    with pytest.raises(NotDisjoint, match="disjoint, and meet"):
        each[(2,)](both, both[16:], N=16)


def test_descriptors_and_the_pointers_that_they_are_made_of() -> None:
    both = np.ones((32, 16), np.float32)
    apart = tawa.TensorDescriptor.from_tensor(both[16:], [16, 16])
    described[(1,)](both[:16], apart, 16, 16)
    np.testing.assert_array_equal(both[16:], 2)
    with pytest.raises(NotDisjoint):
        described[(1,)](both[8:], apart, 16, 16)


def test_check_looks_at_it_beside_the_order_of_programs() -> None:
    module = running.compile("*f32", "*f32", "i32", N=16, PROMISED=True).module("tile")
    both = np.ones(128, np.float32)
    check_memory(module, (1,), [both[:64], both[64:], 3])
    with pytest.raises(NotDisjoint):
        check_memory(module, (1,), [both, both, 3])


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("x", "fewer than two"),
        ("x, x", "from itself"),
        ("x, y + 16", "takes arguments of the kernel"),
        ("x, n", "takes arguments of the kernel"),
        ("x, None, y", None),
    ],
)
def test_what_it_takes(named: str, message: str | None, tmp_path: Any) -> None:
    source = f"""
import tawa
import tawa.language as tl

@tawa.jit
def kernel(x, y, n):
    tl.assume_disjoint({named})
    tl.store(y, tl.load(x))
"""
    file = tmp_path / "kernel.py"
    file.write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, str(file), "exec"), names)
    kernel = names["kernel"]
    if message is None:
        kernel.compile("*f32", "*f32", "i32")
        return
    with pytest.raises(BadArgument, match=message):
        kernel.compile("*f32", "*f32", "i32")


@tawa.jit
def moved(x, y, sx, sy, gap, N: tl.constexpr):
    at = tl.program_id(0)
    i = tl.arange(0, N)
    tl.store(y + at * sy + i * gap, tl.load(x + at * sx + i * gap) + 1)


def test_which_strides_a_launch_in_place_is_asked_for() -> None:
    """Those of two arrays that may be one; not what both are counted with."""

    def alike(*strides: str) -> tuple[Any, ...]:
        return moved.compile("*f32", "*f32", *strides, N=16).spec.alike

    assert alike("i32", "i32", "i32") == (("x", "y", "sx", "sy"),)
    assert alike("i32", "i64", "i32") == ()
    promised = running.compile("*f32", "*f32", "i32", N=16, PROMISED=False).spec
    assert (promised.apart, promised.alike) == ((("x", "y"),), ())


@pytest.mark.parametrize("first", [0, 1, 30, 31, 32, 33, 46])
@pytest.mark.parametrize("size", [1, 4])
def test_a_promise_holds_for_every_byte(first: int, size: int) -> None:
    """One element is read, one written: they meet if they are one."""

    @tawa.jit
    def one(x, y, a, b):
        tl.assume_disjoint(x, y)
        tl.store(y + b, tl.load(x + a))

    both = np.zeros(64, np.int32 if size == 4 else np.int8)
    x, y = both[:48], both[16:]
    for at in (0, 15, 16, 31, 47):
        if 0 <= first < 48 and at == first + 16:
            continue
        one[(1,)](x, y, at, first)
    if first + 16 < 48:
        with pytest.raises(NotDisjoint):
            one[(1,)](x, y, first + 16, first)
