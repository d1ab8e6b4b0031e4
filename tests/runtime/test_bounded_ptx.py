"""PTX assembled again by itself: the same machine code as from C++ with that bound, or not at all."""

from __future__ import annotations

import pytest

from tawa.runtime.bounded_ptx import bounded, inline
from tawa.runtime.nvrtc import compile_cuda

BODY = """
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  float* at = reinterpret_cast<float*>(shared_memory);
  float sum = 0;
  at[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (int i = 0; i < count; ++i) sum += at[i] * scale;
  if (twice) sum += at[threadIdx.x ^ 1];
  x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, sum, 1) + map.bytes[3];
"""


def kernel(ctas: int, parameters: str = "", body: str = BODY) -> str:
    return f"""
    struct alignas(64) Map {{ char bytes[128]; }};
    extern "C" __global__ void __launch_bounds__(128, {ctas})
    k(float* x, int count, bool twice, short h, float scale, double d,
      const __grid_constant__ Map map{parameters}) {{ {body} }}
    """


def test_the_same_ptx_gives_the_same_machine_code():
    """Parameters of all kinds, shared memory, barriers, exchanges, branches and loops."""
    first, whole = (compile_cuda(kernel(ctas), "sm_90a") for ctas in (1, 8))
    found = bounded(first, "sm_90a", 8, "k.cu")
    assert found is not None
    assert found.ptx == whole.ptx
    assert found.cubin == whole.cubin
    assert found.report == whole.report


def test_the_bound_is_kept():
    values = "".join(f"float v{i} = x[{i} * 128 + threadIdx.x];" for i in range(64))
    stores = "".join(f"x[{i} * 128 + count] = v{63 - i};" for i in range(64))
    first = compile_cuda(kernel(1, body=values + stores), "sm_90a")
    found = bounded(first, "sm_90a", 8, "k.cu")
    assert found is not None
    assert first.report.function("k").registers > 64 >= found.report.function("k").registers


@pytest.mark.parametrize(
    "text",
    [
        '__device__ int seen; extern "C" __global__ void __launch_bounds__(128, 1) k() { ++seen; }',
        '__device__ __noinline__ float f(float x) { return x + 1; } extern "C" __global__ void '
        "__launch_bounds__(128, 1) k(float* x) { *x = f(*x); }",
        'extern "C" __global__ void k(int* x) { *x = 1; }',
        'extern "C" __global__ void __launch_bounds__(128, 1) __cluster_dims__(2, 1, 1) k() {}',
    ],
    ids=["a variable", "a function", "no bound", "a cluster"],
)
def test_more_than_a_kernel_is_left(text: str):
    assert inline(compile_cuda(text, "sm_90a").ptx, 2) is None


def test_what_is_no_assembly_is_left():
    product = compile_cuda(kernel(1), "sm_90a")
    broken = type(product)(b"", product.ptx.replace("ret;", "oops;"), "", product.report, 0)
    assert bounded(broken, "sm_90a", 2, "k.cu") is None
