"""A `while` loop that carries tiles is split into roles: the loading one carries its counter only."""

import numpy as np
import pytest
from lowering import HEAD, kernel_in, modules, run_time_arguments
from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import WarpGroup
from tawa.simulate import check
from tawa.simulate.interpret import aref, tile
from tawa.simulate.interpret.errors import OutOfBounds
from tawa.simulate.interpret.hopper import run

SOURCE = HEAD + (
    "def kernel(a_desc, b_desc, c_desc, K, BLOCK: tl.constexpr):\n"
    "    acc = tl.zeros((64, 64), tl.float32)\n"
    "    row = tl.program_id(0) * 64\n"
    "    k = 0\n"
    "    while k < K:\n"
    "        a = a_desc.load([row, k])\n"
    "        b = b_desc.load([0, k])\n"
    "        acc = tl.dot(a, b.T, acc)\n"
    "        k += BLOCK\n"
    "    c_desc.store([row, 0], acc)\n"
)


@pytest.fixture
def named():
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((rows, 160)).astype(np.float16) for rows in (128, 64))
    c = np.full((128, 64), np.nan, np.float32)
    describe = tawa.TensorDescriptor.from_tensor
    tiles = {"a_desc": describe(a, [64, 32]), "b_desc": describe(b, [64, 32])}
    return {**tiles, "c_desc": describe(c, [64, 64]), "K": 160, "BLOCK": 32}


@pytest.mark.parametrize("options", [{}, {"num_stages": 2}, {"specialize": True},
                                     {"persistent": True}], ids=str)  # fmt: skip
def test_a_while_loop_with_a_tile_is_specialised_and_right(tmp_path, named, options):
    levels = modules(kernel_in(tmp_path, SOURCE), named, options)
    groups = {op.role.data: op for op in levels["aref"].walk() if isinstance(op, WarpGroup)}
    assert set(groups) == {"load", "math"}
    (loop,) = (op for op in groups["load"].walk() if isinstance(op, scf.WhileOp))
    assert not any(isinstance(v.type, TensorType) for v in loop.results)
    c = named["c_desc"].base
    a, b = (named[name].base.astype(float) for name in ("a_desc", "b_desc"))
    for level in ("tile", "aref"):
        c[...] = np.nan
        values = [v for name, v in named.items() if name != "BLOCK"]
        (tile if level == "tile" else aref).run(levels[level], (2,), values)
        np.testing.assert_allclose(c, a @ b.T, rtol=1e-2, atol=1e-2, err_msg=level)
    c[...] = np.nan
    arguments = run_time_arguments(levels["hopper"], named)
    report = check(levels["hopper"], (2,), arguments, multiprocessors=1, schedules=1)
    assert report.proved
    assert report.same_results
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-2, atol=1e-2)


@tawa.jit
def beyond(x, n, N: tl.constexpr):
    i = 0
    while i < n:
        tl.store(x + i * 64 + tl.arange(0, N), 1.0)
        i += 1


def test_an_error_names_the_iteration_of_a_while():
    module = beyond.compile("*f32", "i32", 64).module("hopper")
    with pytest.raises(OutOfBounds) as caught:
        run(module, (1,), [np.zeros(200, np.float32), 9])
    assert "(iteration = 3)" in str(caught.value)
