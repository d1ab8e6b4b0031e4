"""What the compiler makes is safe in every interleaving, for the options that change communication."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tawa
from tawa.driver.compilation import Compilation
from tawa.frontend import lower_to_tile, parse_argument
from tawa.simulate import check, run
from tawa.simulate.interpret.errors import ProtocolError
from tawa.simulate.interpret.launch import kernel_of, spec_of

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
    work = Compilation(request.options)
    types = [parse_argument(text) for text in request.types.values()]
    module = work.level("tile", lower_to_tile(kernel, types, request.constants))
    module = work.level("hopper", work.level("aref", module))
    return module, [named[n] for n in spec_of(module, kernel_of(module)).arguments]


def launch_of_gemm(options):
    """A module, its arguments, its output and what that should be."""
    from gemm import gemm

    random = np.random.default_rng(2)
    a, b = (random.standard_normal((256, 320)).astype(np.float16) for _ in range(2))
    c = np.full((256, 256), np.nan, np.float16)
    describe = tawa.TensorDescriptor.from_tensor
    named = {"a_desc": describe(a, [128, 64]), "b_desc": describe(b, [128, 64]),
             "c_desc": describe(c, [128, 128]), "M": 256, "N": 256, "K": 320}  # fmt: skip
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}
    module, arguments = hopper_module(gemm, named, blocks, options)
    return module, arguments, c, a.astype(float) @ b.astype(float).T


def error(c, reference) -> float:
    return float(np.linalg.norm(c - reference) / np.linalg.norm(reference))


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o)) or "default")
def test_gemm(options):
    module, arguments, c, reference = launch_of_gemm(options)
    report = check(module, (4,), arguments, multiprocessors=2, schedules=1, bound=200_000)
    assert report.proved, report.render()
    assert report.same_results
    assert error(c, reference) < 1e-3


COMMUNICATION = {
    "hopper.mbarrier_wait", "hopper.mbarrier_arrive", "hopper.mbarrier_expect", "hopper.tma_load",
    "hopper.fence_proxy_async", "hopper.named_barrier_sync", "hopper.bulk_wait_read",
    "hopper.bulk_commit", "hopper.wgmma_fence", "hopper.wgmma_commit", "hopper.cta_sync",
    "hopper.fence_barrier_init", "hopper.tma_store",
}  # fmt: skip


def test_no_step_of_communication_can_be_left_out():
    """Each one dropped from a compiled kernel is a named error (a store: wrong numbers)."""
    options = {"persistent": True, "num_stages": 3, "staging": 1}
    whole, arguments, c, reference = launch_of_gemm(options)
    dropped = Counter()
    count = sum(op.name in COMMUNICATION for op in whole.walk())
    for number in range(count):
        module = whole.clone()
        op = [op for op in module.walk() if op.name in COMMUNICATION][number]
        op.detach()
        dropped[op.name] += 1
        c[...] = np.nan
        if op.name == "hopper.tma_store":
            run(module, (4,), arguments, multiprocessors=2)
            assert not error(c, reference) < 1e-3
        else:
            with pytest.raises(ProtocolError):
                run(module, (4,), arguments, multiprocessors=2)
    assert set(dropped) == COMMUNICATION
