"""The run time on a device, with kernels written in CUDA C++: nothing of the compiler takes part."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tawa.base.kernel_spec import GridParam, KernelSpec, PointerParam, ScalarParam, TensorMapParam
from tawa.runtime import driver, launch
from tawa.runtime.arrays import view
from tawa.runtime.autotune import Config, autotune
from tawa.runtime.descriptor import TensorDescriptor
from tawa.runtime.launch import LaunchFailed
from tawa.runtime.nvrtc import compile_cuda
from tawa.runtime.timing import Stopwatch, do_bench, host_microseconds

pytestmark = pytest.mark.gpu

AXPY = """
extern "C" __global__ void axpy(float *y, const float *x, float a, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""
AXPY_SPEC = KernelSpec(
    "axpy",
    128,
    0,
    (
        PointerParam(0),
        PointerParam(1),
        ScalarParam(("arg", 2), "f32"),
        ScalarParam(("arg", 3), "i32"),
    ),
    ("y", "x", "a", "n"),
)

COPY = """
struct __align__(64) Map { char bytes[128]; };
extern "C" __global__ void copy(const __grid_constant__ Map in, const __grid_constant__ Map out) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ unsigned long long barrier;
  unsigned dst = __cvta_generic_to_shared(tile), bar = __cvta_generic_to_shared(&barrier);
  int x = blockIdx.x * 64, y = blockIdx.y * 32;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" :: "r"(bar));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];"
                 :: "r"(dst), "l"(&in), "r"(bar), "r"(x), "r"(y) : "memory");
    asm volatile("{\\n.reg .pred p;\\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\\n"
                 "@p bra D;\\nbra W;\\nD:\\n}" :: "r"(bar) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
                 :: "l"(&out), "r"(dst), "r"(x), "r"(y) : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
"""


def copy_spec(swizzle: int) -> KernelSpec:
    maps = tuple(TensorMapParam(i, "f16", (32, 64), (32, 64), swizzle=swizzle) for i in range(2))
    return KernelSpec("copy", 32, 8192, maps, ("source", "target"))


CLUSTER = """
extern "C" __global__ void ranks(int *out, int logical) {
  unsigned rank, size;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
  if (threadIdx.x == 0) {
    for (int t = blockIdx.x; t < logical; t += gridDim.x) out[t] = rank * 100 + size;
  }
}
"""


@cache
def launcher(source: str, spec: KernelSpec) -> launch.Launcher:
    return launch.load(spec, compile_cuda(source, "sm_90a").cubin)


@pytest.fixture
def torch() -> Any:
    module = pytest.importorskip("torch")
    module.manual_seed(0)
    return module


@pytest.fixture
def axpy(torch: Any) -> tuple[Callable[..., None], Any, Any]:
    x, y = (torch.randn(1000, device="cuda") for _ in range(2))
    kernel = launcher(AXPY, AXPY_SPEC)
    return lambda **options: kernel.launch(8, y, x, 2.0, 1000, **options), x, y


def test_a_launch_computes(torch: Any, axpy: Any) -> None:
    start, x, y = axpy
    expected = y + 2 * x
    start()
    assert torch.equal(y, expected)


def test_a_launch_follows_the_current_stream(torch: Any, axpy: Any) -> None:
    start, x, y = axpy
    start()  # compiling takes longer than the sleep
    _ = y + 2 * x  # and loading PyTorch's kernels waits for the whole device
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(500_000_000)
        start()
        assert not side.query()
        assert torch.cuda.default_stream().query()
    expected = y + 2 * x  # the kernel still waits behind the sleep
    side.synchronize()
    assert torch.equal(y, expected)


def test_an_explicit_stream(torch: Any, axpy: Any) -> None:
    start, x, y = axpy
    expected = y + 2 * x
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    start(stream=side)
    side.synchronize()
    assert torch.equal(y, expected)


def test_launches_are_captured_in_a_graph(torch: Any, axpy: Any) -> None:
    start, x, y = axpy
    start()
    torch.cuda.synchronize()
    expected = y + 3 * 2 * x
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        start()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(y, expected)


def test_a_thread_without_a_context_can_launch(torch: Any, axpy: Any) -> None:
    start, x, y = axpy
    expected = y + 2 * x
    failures: list[BaseException] = []

    def work() -> None:
        try:
            start(stream=0)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert failures == []
    assert torch.equal(y, expected)


@pytest.mark.parametrize("swizzle", [0, 128])
@pytest.mark.parametrize(("rows", "columns"), [(64, 128), (37, 104), (1, 8), (33, 72)])
def test_tensor_maps_copy_and_clip(torch: Any, swizzle: int, rows: int, columns: int) -> None:
    source = torch.randn(rows, columns, device="cuda").half()
    around = torch.full((rows + 2, 192), 7.0, device="cuda").half()
    target = around[1 : rows + 1, 8 : columns + 8]
    kernel = launcher(COPY, copy_spec(swizzle))
    grid = (-(-columns // 64), -(-rows // 32))
    kernel.launch(grid, *(TensorDescriptor.from_tensor(t, [32, 64]) for t in (source, target)))
    torch.cuda.synchronize()
    assert torch.equal(target, source)
    around[1 : rows + 1, 8 : columns + 8] = 7.0
    assert bool((around == 7.0).all())


def test_a_descriptor_follows_its_tensor_s_memory(torch: Any) -> None:
    kernel = launcher(COPY, copy_spec(128))
    source = torch.randn(32, 64, device="cuda").half()
    target = torch.zeros_like(source)
    described = [TensorDescriptor.from_tensor(t, [32, 64]) for t in (source, target)]
    kernel.launch((1, 1), *described)
    other = torch.randn(32, 64, device="cuda").half()
    source.set_(other)
    kernel.launch((1, 1), *described)
    torch.cuda.synchronize()
    assert torch.equal(target, other)


def test_a_tensor_without_elements_can_be_described(torch: Any) -> None:
    kernel = launcher(COPY, copy_spec(128))
    empty = torch.empty(32, 0, device="cuda").half()
    target = torch.ones(32, 64, device="cuda").half()
    kernel.launch((0,), *(TensorDescriptor.from_tensor(t, [32, 64]) for t in (empty, target)))
    kernel.launch((1,), *(TensorDescriptor.from_tensor(t, [32, 64]) for t in (empty, target)))
    torch.cuda.synchronize()
    assert bool((target == 0).all())


@pytest.mark.parametrize("cluster", [1, 2, 4])
@pytest.mark.parametrize("programs", [3, 128, 1000])
def test_clusters_and_persistent_grids(torch: Any, cluster: int, programs: int) -> None:
    spec = KernelSpec(
        "ranks",
        64,
        100_000,
        (PointerParam(0), GridParam(0)),
        ("out",),
        cluster=(cluster, 1, 1),
        grid="persistent",
    )
    kernel = launcher(CLUSTER, spec)
    out = torch.full((programs,), -1, device="cuda", dtype=torch.int32)
    kernel.launch((programs,), out)
    torch.cuda.synchronize()
    assert bool((out % 100 == cluster).all())
    assert set((out // 100).tolist()) == set(range(min(cluster, programs)))


def test_impossible_launches_say_why(torch: Any) -> None:
    spec = KernelSpec("axpy", 2048, 0, AXPY_SPEC.parameters, AXPY_SPEC.arguments)
    kernel = launch.load(spec, compile_cuda(AXPY, "sm_90a").cubin)
    x = torch.zeros(8, device="cuda")
    with pytest.raises(LaunchFailed, match="2048 threads"):
        kernel.launch(1, x, x, 1.0, 8)


def test_more_shared_memory_than_there_is(torch: Any) -> None:
    spec = KernelSpec("axpy", 128, 400_000, AXPY_SPEC.parameters, AXPY_SPEC.arguments)
    with pytest.raises(driver.DriverFailure, match="cuKernelSetAttribute"):
        launch.load(spec, compile_cuda(AXPY, "sm_90a").cubin)


def test_timing_agrees_with_the_memory_s_speed(torch: Any) -> None:
    source = torch.zeros(2**28, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    milliseconds = do_bench(lambda: target.copy_(source), 20, 50)
    assert 1000 < 2 * 2**28 / milliseconds / 1e6 < 6000  # GB/s
    assert len(Stopwatch().times(lambda: target.copy_(source), 70)) == 70


def test_autotuning_finds_the_faster_configuration(torch: Any) -> None:
    class Kernel:
        arg_names = ("x", "n")

        def run(self, x: Any, *, grid: Any, n: int) -> int:
            for _ in range(n):
                x.add_(1)
            return n

    x = torch.zeros(2**24, device="cuda")
    configs = [Config({"n": n}) for n in (8, 1, 4)]
    tuned = autotune(configs, [], restore_value=["x"], warmup=5, rep=20)(Kernel())
    assert tuned[1](x) == 1
    assert bool((x == 1).all())


def test_cupy_arrays_and_streams() -> None:
    cupy = pytest.importorskip("cupy")
    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.ones(1000, cupy.float32)
    kernel = launcher(AXPY, AXPY_SPEC)
    kernel.launch(8, y, x, 2.0, 1000)
    side = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with side:
        kernel.launch(8, y, x, 3.0, 1000)
    side.synchronize()
    assert bool((y == 1 + 5 * x).all())


@pytest.mark.filterwarnings("default")
def test_jax_arrays(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jnp = pytest.importorskip("jax.numpy")
    x = jnp.arange(1000, dtype=jnp.float32).block_until_ready()
    y = torch.ones(1000, device="cuda")
    launcher(AXPY, AXPY_SPEC).launch(8, y, x, 2.0, 1000)
    assert bool((y.cpu() == 1 + 2 * torch.arange(1000)).all())
    half = jnp.ones((64, 64), dtype=jnp.bfloat16).block_until_ready()
    seen = view(half)
    assert (seen.element_type, seen.shape, seen.strides) == ("bf16", (64, 64), (64, 1))
    assert seen.device == 0


@pytest.mark.filterwarnings("default")
def test_any_array_with_only_dlpack(torch: Any) -> None:
    class OnlyDLPack:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack__(self, **options: Any) -> Any:
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

    x, y = (torch.randn(1000, device="cuda") for _ in range(2))
    expected = y + 2 * x
    launcher(AXPY, AXPY_SPEC).launch(8, OnlyDLPack(y), OnlyDLPack(x), 2.0, 1000)
    assert torch.equal(y, expected)
    assert view(OnlyDLPack(x)).pointer == x.data_ptr()


def test_another_device_s_arrays_run_there(torch: Any) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    kernel = launch.load(AXPY_SPEC, compile_cuda(AXPY, "sm_90a").cubin, 1)
    x, y = (torch.randn(1000, device="cuda:1") for _ in range(2))
    expected = y + 2 * x
    kernel.launch(8, y, x, 2.0, 1000)
    assert torch.cuda.current_device() == 0
    torch.cuda.synchronize(1)
    assert torch.equal(y, expected)


def test_host_time_of_a_launch(torch: Any, axpy: Any) -> None:
    start, *_ = axpy
    assert host_microseconds(start, torch.cuda.synchronize).median < 50
