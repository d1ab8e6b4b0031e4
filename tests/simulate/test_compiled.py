"""What the compiler makes is safe in every interleaving, for the options that change communication."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tawa
from tawa.compiler import Pipeline
from tawa.frontend import lower_to_tile, parse_argument
from tawa.simulate import check
from tawa.simulate.launch import kernel_of, spec_of

sys.path.append(str(Path(__file__).parents[2] / "examples"))

OPTIONS = [
    {},
    {"specialize": False},
    {"num_stages": 3, "mma_depth": 1, "consumers": 2},
    {"num_stages": 1, "mma_depth": 0},
    {"persistent": True, "num_stages": 3, "staging": 1},
    {"persistent": True, "consumers": 2, "ping_pong": True, "num_stages": 3},
    {"cluster": 2, "num_stages": 2},
]


def hopper_module(kernel, named, constants, options):
    """The kernel's hopper module, and its run-time arguments."""
    request = kernel.request(**named, **constants, **options)
    pipeline = Pipeline(request.options)
    types = [parse_argument(text) for text in request.types.values()]
    module = pipeline.level("tile", lower_to_tile(kernel, types, request.constants))
    module = pipeline.level("hopper", pipeline.level("aref", module))
    return module, [named[n] for n in spec_of(module, kernel_of(module)).arguments]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o)) or "default")
def test_gemm(options):
    from gemm import gemm

    random = np.random.default_rng(2)
    a, b = (random.standard_normal((256, 320)).astype(np.float16) for _ in range(2))
    c = np.full((256, 256), np.nan, np.float16)
    describe = tawa.TensorDescriptor.from_tensor
    named = {"a_desc": describe(a, [128, 64]), "b_desc": describe(b, [128, 64]),
             "c_desc": describe(c, [128, 128]), "M": 256, "N": 256, "K": 320}  # fmt: skip
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}
    module, arguments = hopper_module(gemm, named, blocks, options)
    report = check(module, (4,), arguments, multiprocessors=2, schedules=1, bound=200_000)
    assert report.proved, report.render()
    assert report.same_results
    reference = a.astype(float) @ b.astype(float).T
    assert np.linalg.norm(c - reference) < 1e-3 * np.linalg.norm(reference)


def test_a_miscompiled_gemm_is_caught():
    """Dropping one wait from what the compiler made is noticed: the check can fail."""
    from gemm import gemm

    from tawa.simulate.errors import ProtocolError

    tiles = [np.zeros((256, 320), np.float16) for _ in range(2)]
    c = np.zeros((256, 256), np.float16)
    describe = tawa.TensorDescriptor.from_tensor
    named = {"a_desc": describe(tiles[0], [128, 64]), "b_desc": describe(tiles[1], [128, 64]),
             "c_desc": describe(c, [128, 128]), "M": 256, "N": 256, "K": 320}  # fmt: skip
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}
    caught = 0
    count = 0
    while True:
        module, arguments = hopper_module(gemm, named, blocks, {"num_stages": 3})
        waits = [op for op in module.walk() if op.name == "hopper.mbarrier_wait"]
        if count == len(waits):
            break
        waits[count].detach()
        with pytest.raises(ProtocolError):
            check(module, (4,), arguments, schedules=0)
        caught += 1
        count += 1
    assert caught >= 2
