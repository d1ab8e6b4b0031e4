"""Launching, seen from the driver's side: what arrives at its entry points.

The driver's two functions are replaced by functions that write down their arguments, so that the
packing of parameters and the launch's numbers are checked without a device.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tawa.base.kernel_spec import GridParam, KernelSpec, PointerParam, ScalarParam, TensorMapParam
from tawa.runtime import launch, streams, tensormap
from tawa.runtime.arguments import classify
from tawa.runtime.arrays import HOST
from tawa.runtime.descriptor import (
    BaseNotAligned,
    DescriptorMismatch,
    Geometry,
    InnerStrideNotOne,
    SizeOutOfRange,
    StrideNotAligned,
    TensorDescriptor,
)
from tawa.runtime.launch import (
    BadGrid,
    EntryPoints,
    LaunchConfig,
    Launcher,
    ScalarOutOfRange,
    WrongDevice,
    require_device,
)

PLACEHOLDER = 0x7000
ENCODE_TYPES = (
    *(ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p),
    *(ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64)),
    *(ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32)),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int),
)


class DeviceArray:
    """An array that claims to lie on CUDA device 0, at an address that is never read."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "strides": tuple(2 * stride for stride in strides),
            "typestr": "<f2",
            "version": 3,
        }
        self.dtype = np.dtype(np.float16)


class RecordingDriver:
    """Entry points that write their arguments down."""

    def __init__(self, spec: KernelSpec, resident_ctas: int = 132) -> None:
        self.sizes = [128 if isinstance(p, TensorMapParam) else 8 for p in spec.parameters]
        self.maps: list[dict[str, Any]] = []
        self.launches: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        launch_type = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
        self._launch = launch_type(self.launch)
        self._encode = ctypes.CFUNCTYPE(ctypes.c_int, *ENCODE_TYPES)(self.encode)
        points = EntryPoints(self._launch, self._encode, lambda: PLACEHOLDER, resident_ctas)
        self.launcher = Launcher(spec, 0xABCD, 0, points)

    def launch(self, config: int, kernel: int, parameters: int, extra: int | None) -> int:
        fields = LaunchConfig.from_address(config)
        addresses = (ctypes.c_void_p * len(self.sizes)).from_address(parameters)
        values = [ctypes.string_at(a, n) for a, n in zip(addresses, self.sizes, strict=True)]
        cluster = tuple(fields.attributes[0].cluster) if fields.attribute_count else None
        self.launches.append(
            {
                "kernel": kernel,
                "grid": tuple(fields.grid),
                "block": tuple(fields.block),
                "shared": fields.shared_bytes,
                "stream": fields.stream,
                "cluster": cluster,
                "values": values,
                "misaligned": [
                    a for a, v in zip(addresses, values, strict=True) if a % min(64, len(v))
                ],
            }
        )
        return self.statuses.pop(0) if self.statuses else 0

    def encode(self, out: int, dtype: int, rank: int, address: int, *rest: Any) -> int:
        shape, strides, box, steps, interleave, swizzle, promotion, fill = rest
        assert out % 64 == 0
        ctypes.memset(out, len(self.maps) + 1, 128)
        self.maps.append(
            {
                "dtype": dtype,
                "address": address,
                "shape": shape[:rank],
                "strides": strides[: rank - 1],
                "box": box[:rank],
                "steps": steps[:rank],
                "modes": (interleave, swizzle, promotion, fill),
            }
        )
        return 0


def matmul_spec(**changes: Any) -> KernelSpec:
    fields: dict[str, Any] = {
        "entry": "matmul",
        "threads": 384,
        "shared_bytes": 221184,
        "arguments": ("a", "c", "m", "scale"),
        "parameters": (
            ScalarParam(("arg", 2), "i32"),
            TensorMapParam(
                0, "f16", (128, 64), (128, 64), swizzle=128, fill="nan", l2_promotion=128
            ),
            PointerParam(1),
            ScalarParam(("arg", 3), "f32"),
            GridParam(1),
            ScalarParam(("cdiv", ("dim", 0, 1), 64), "i64"),
        ),
    }
    return KernelSpec(**{**fields, **changes})


def descriptor(address: int = 0x10000, rows: int = 256, columns: int = 200) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(
        DeviceArray(address, (rows, columns), (columns, 1)), [128, 64]
    )


C = DeviceArray(0x20000, (256, 64), (64, 1))


def test_parameters_arrive_in_c_order() -> None:
    driver = RecordingDriver(matmul_spec())
    driver.launcher.launch((4, 3), descriptor(), C, 256, 0.5, stream=77)
    (seen,) = driver.launches
    scalars = [value for value in seen["values"] if len(value) == 8]
    assert struct.unpack("<i", scalars[0][:4]) == (256,)
    assert struct.unpack("<Q", scalars[1]) == (0x20000,)
    assert struct.unpack("<f", scalars[2][:4]) == (0.5,)
    assert struct.unpack("<i", scalars[3][:4]) == (3,)
    assert struct.unpack("<q", scalars[4]) == (4,)
    assert seen["values"][1] == bytes([1]) * 128
    assert seen["misaligned"] == []
    assert seen["grid"] == (4, 3, 1)
    assert seen["block"] == (384, 1, 1)
    assert (seen["kernel"], seen["shared"], seen["stream"]) == (0xABCD, 221184, 77)
    assert seen["cluster"] is None


def test_tensor_maps_are_made_innermost_first_and_only_once() -> None:
    driver = RecordingDriver(matmul_spec())
    for _ in range(3):
        driver.launcher.launch(1, descriptor(), C, 256, 0.5)
    (made,) = driver.maps
    assert made == {
        "dtype": 6,
        "address": 0x10000,
        "shape": [200, 256],
        "strides": [400],
        "box": [64, 128],
        "steps": [1, 1],
        "modes": (0, 3, 2, 1),
    }
    driver.launcher.launch(1, descriptor(0x30000), C, 256, 0.5)
    assert [m["address"] for m in driver.maps] == [0x10000, 0x30000]
    assert driver.launches[-1]["values"][1] == bytes([2]) * 128
    driver.launcher.launch(1, descriptor(), C, 256, 0.5)
    assert len(driver.maps) == 2
    assert driver.launches[-1]["values"][1] == bytes([1]) * 128


def test_a_map_of_an_array_takes_its_sizes_from_expressions() -> None:
    parameter = TensorMapParam(
        0,
        "bf16",
        (2, 64, 64),
        source="array",
        shape=(("cdiv", ("arg", 2), 64), ("arg", 1), 64),
        strides=(64, ("arg", 2), 1),
        offset=("mul", ("arg", 1), 8),
    )
    spec = KernelSpec("k", 128, 0, (parameter,), arguments=("x", "rows", "columns"))
    driver = RecordingDriver(spec)
    driver.launcher.launch(1, C, 32, 256)
    (made,) = driver.maps
    assert made["dtype"] == 9
    assert made["shape"] == [64, 32, 4]
    assert made["strides"] == [512, 128]
    assert made["box"] == [64, 64, 2]
    assert made["address"] == 0x20000 + 2 * 32 * 8


@pytest.mark.parametrize(("n", "half"), [(-3, -1), (-4, -2), (3, 1), (-1, 0)])
def test_what_the_host_computes_is_rounded_as_in_kernels(n: int, half: int) -> None:
    expr = ("quotient", ("arg", 1), 2)
    parameters = (
        TensorMapParam(0, "f16", (64,), source="array", shape=(64,), strides=(1,),
                       offset=("add", ("mul", expr, 8), 64)),
        TensorMapParam(2, "f16", (64,), shape=(64,), strides=(1,), offset=("add", ("mul", expr, 8), 128)),
        ScalarParam(expr, "i32"),
    )  # fmt: skip
    driver = RecordingDriver(KernelSpec("k", 128, 0, parameters, arguments=("x", "n", "d")))
    driver.launcher.launch(1, C, n, descriptor())
    (seen,) = driver.launches
    assert [made["address"] for made in driver.maps] == [
        0x20000 + 16 * half + 128, 0x10000 + 16 * half + 256,
    ]  # fmt: skip
    assert [
        int.from_bytes(v[:4], "little", signed=True) for v in seen["values"] if len(v) == 8
    ] == [half]


def test_a_map_of_an_array_is_made_once_for_the_values_it_is_made_of() -> None:
    stride = ("min", ("max", ("arg", 1), 64), 1 << 32)
    parameter = TensorMapParam(
        0, "f16", (1, 64, 64), source="array", shape=(2**31 - 1, 64, 64), strides=(8, stride, 1)
    )  # fmt: skip
    spec = KernelSpec("k", 128, 0, (parameter,), arguments=("x", "stride", "n"))
    driver = RecordingDriver(spec)
    for stride, n in ((256, 1), (256, 2), (-256, 3), (0, 4), (-256, 5)):
        driver.launcher.launch(1, C, stride, n)
    assert [m["strides"] for m in driver.maps] == [[512, 16], [128, 16]]
    assert [m["shape"] for m in driver.maps] == [[64, 64, 2**31 - 1]] * 2
    driver.launcher.launch(1, DeviceArray(0, (0, 256), (256, 1)), 256, 1)
    assert driver.maps[2]["address"] == PLACEHOLDER, "an array without elements lies nowhere"
    assert driver.maps[2]["shape"] == [1, 1, 1]


def test_a_tensor_without_elements_is_described_by_a_placeholder() -> None:
    driver = RecordingDriver(matmul_spec())
    empty = TensorDescriptor.from_tensor(DeviceArray(0, (256, 0), (1, 1)), [128, 64])
    driver.launcher.launch(1, empty, C, 256, 0.5)
    assert driver.maps[0]["address"] == PLACEHOLDER
    assert driver.maps[0]["shape"] == [1, 1]


@pytest.mark.parametrize(
    ("grid", "cluster", "expected"),
    [
        ((1000,), 1, (132, 1, 1)),
        ((5, 4, 2), 1, (40, 1, 1)),
        ((1000,), 2, (132, 1, 1)),
        ((7,), 2, (8, 1, 1)),
    ],
)
def test_a_persistent_grid_fills_the_device_and_no_more(
    grid: tuple[int, ...], cluster: int, expected: tuple[int, ...]
) -> None:
    driver = RecordingDriver(matmul_spec(grid="persistent", cluster=(cluster, 1, 1)))
    driver.launcher.launch(grid, descriptor(), C, 256, 0.5)
    (seen,) = driver.launches
    assert seen["grid"] == expected
    assert seen["cluster"] == ((cluster, 1, 1) if cluster > 1 else None)
    assert struct.unpack("<i", seen["values"][4][:4])[0] == (*grid, 1, 1)[1]


def test_sizes_of_one_may_follow_the_third() -> None:
    driver = RecordingDriver(matmul_spec())
    driver.launcher.launch((16, 8, 1, 1, 1), descriptor(), C, 256, 0.5)
    assert driver.launches[0]["grid"] == (16, 8, 1)


@pytest.mark.parametrize("grid", [0, (0,), (3, 0), (0, 1, 1)])
def test_an_empty_grid_launches_nothing(grid: Any) -> None:
    driver = RecordingDriver(matmul_spec())
    driver.launcher.launch(grid, descriptor(), C, 256, 0.5)
    assert driver.launches == []


@pytest.mark.parametrize(
    "grid", [(), (1, 2, 3, 4), (4, 1, 1, 1, 2), (4, 1, 1, 0), (-1,), "ab", (1, 70000), (3,), None]
)
def test_an_impossible_grid_is_refused(grid: Any) -> None:
    driver = RecordingDriver(matmul_spec(cluster=(2, 1, 1)))
    with pytest.raises(BadGrid):
        driver.launcher.launch(grid, descriptor(), C, 256, 0.5)
    assert driver.launches == []
    driver.launcher.launch((4,), descriptor(), C, 256, 0.5)
    assert driver.launches[0]["grid"] == (4, 1, 1)


def test_a_mutated_grid_list_is_seen() -> None:
    driver = RecordingDriver(matmul_spec())
    grid = [2, 2]
    driver.launcher.launch(grid, descriptor(), C, 256, 0.5)
    grid[0] = 5
    driver.launcher.launch(grid, descriptor(), C, 256, 0.5)
    assert [seen["grid"] for seen in driver.launches] == [(2, 2, 1), (5, 2, 1)]


def test_the_grid_may_change_between_launches() -> None:
    driver = RecordingDriver(matmul_spec())
    for size in (3, 3, 9, (3,)):
        driver.launcher.launch(size, descriptor(), C, 256, 0.5)
    assert [seen["grid"][0] for seen in driver.launches] == [3, 3, 9, 3]


def test_a_host_array_is_named() -> None:
    driver = RecordingDriver(matmul_spec())
    with pytest.raises(WrongDevice, match="argument `c` lies on another device"):
        driver.launcher.launch(1, descriptor(), np.zeros(4, np.float16), 256, 0.5)


@pytest.mark.parametrize(
    ("found", "expected", "words"),
    [
        (HOST, 0, ("CUDA device 0", "the host's memory")),
        (1, 0, ("CUDA device 0", "CUDA device 1")),
        (2, HOST, ("the host's memory", "CUDA device 2")),
    ],
)
def test_where_an_array_lies_and_where_it_should(found: int, expected: int, words: tuple[str, str]):
    require_device(["a", "b"], 1, 3, 3)
    with pytest.raises(WrongDevice) as caught:
        require_device(["a", "b"], 1, found, expected)
    assert "`b`" in str(caught.value)
    assert (caught.value.expected, caught.value.found) == words


def test_a_value_that_does_not_fit_its_parameter_is_refused() -> None:
    driver = RecordingDriver(matmul_spec())
    with pytest.raises(ScalarOutOfRange):
        driver.launcher.launch(1, descriptor(), C, 2**31, 0.5)
    assert driver.launches == []


def test_streams_of_any_library() -> None:
    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 41

    class Torch:
        cuda_stream = 42

    class Cupy:
        ptr = 43

    found = [streams.stream_address(stream) for stream in (Protocol(), Torch(), Cupy(), 44)]
    assert found == [41, 42, 43, 44]
    with pytest.raises(streams.NotAStream):
        streams.stream_address(object())


def test_threads_do_not_mix_their_parameters() -> None:
    spec = KernelSpec(
        "k", 128, 0, (ScalarParam(("arg", 0), "i64"), ScalarParam(("arg", 0), "i64")), ("x",)
    )
    driver = RecordingDriver(spec)

    def work(number: int) -> None:
        for step in range(200):
            driver.launcher(1, (number * 1000 + step,), number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(driver.launches) == 800
    for seen in driver.launches:
        first, second = (struct.unpack("<q", value)[0] for value in seen["values"])
        assert first == second
        assert first // 1000 == seen["stream"]


@pytest.mark.parametrize(
    ("shape", "strides", "block", "error"),
    [
        ((64, 64), (64, 1), (64,), DescriptorMismatch),
        ((2,) * 6, (32, 16, 8, 4, 2, 1), (1,) * 6, DescriptorMismatch),
        ((64, 64), (1, 64), (16, 16), InnerStrideNotOne),
        ((64, 63), (63, 1), (16, 16), StrideNotAligned),
        ((64, 64), (64, 1), (16, 4), SizeOutOfRange),
        ((64, 64), (64, 1), (0, 16), SizeOutOfRange),
        ((2**33, 64), (64, 1), (16, 16), SizeOutOfRange),
        ((0, 64), (64, 1), (16, 4), SizeOutOfRange),
        ((64, 64), (2**40, 1), (16, 16), SizeOutOfRange),
    ],
)
def test_descriptors_that_the_copy_engine_can_t_take(
    shape: tuple[int, ...], strides: tuple[int, ...], block: tuple[int, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        TensorDescriptor(DeviceArray(0x1000, shape, strides), shape, strides, block)


def test_an_unaligned_base_is_refused() -> None:
    with pytest.raises(BaseNotAligned, match="0x1008"):
        descriptor(0x1008)


def test_descriptors_follow_assignments() -> None:
    described = descriptor()
    kind, _ = classify(described)
    assert kind.type == "desc<f16,128x64>"
    described.block_shape = [64, 64]
    assert classify(described)[0].type == "desc<f16,64x64>"
    with pytest.raises(InnerStrideNotOne):
        described.strides = [1, 256]
    assert described.strides == (200, 1)


class Tensor:
    """Has the methods of a PyTorch tensor, and a class that is not PyTorch's own."""

    dtype = "torch.float16"
    shape = (64, 64)

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, ...]:
        return (64, 1)

    def get_device(self) -> int:
        return 0


def test_subclasses_of_pytorch_s_tensors_use_its_stream() -> None:
    described = TensorDescriptor.from_tensor(Tensor(0x1000), [16, 16])
    assert [classify(value)[0].library for value in (Tensor(0x1000), described)] == ["torch"] * 2
    assert classify(Tensor(0x1008))[0].text == "*f16"
    assert classify(Tensor(0x1010))[0].text == "*f16:16"


def test_a_descriptor_whose_memory_moved_is_described_anew() -> None:
    driver = RecordingDriver(matmul_spec())
    tensor = Tensor(0x1000)
    described = TensorDescriptor.from_tensor(tensor, [128, 64])
    driver.launcher.launch(1, described, C, 256, 0.5, stream=0)
    tensor.address = 0x2000
    driver.launcher.launch(1, described, C, 256, 0.5, stream=0)
    tensor.address = 0x2008
    with pytest.raises(BaseNotAligned, match="argument `a`"):
        driver.launcher.launch(1, described, C, 256, 0.5, stream=0)
    assert [made["address"] for made in driver.maps] == [0x1000, 0x2000]


def test_padding_is_the_descriptor_s() -> None:
    driver = RecordingDriver(
        matmul_spec(parameters=(TensorMapParam(0, "f16", (128, 64), swizzle=128),))
    )
    for padding in ("zero", "nan"):
        padded = TensorDescriptor.from_tensor(Tensor(0x1000), [128, 64], padding)
        driver.launcher.launch(1, padded, C, 256, 0.5, stream=0)
    assert [made["modes"][3] for made in driver.maps] == [0, 1]


def test_descriptors_of_triton_are_taken_and_followed() -> None:
    class Foreign:
        def __init__(self, base: Any, block: list[int]) -> None:
            self.base, self.shape, self.strides = base, [256, 64], [64, 1]
            self.block_shape = block

    foreign = Foreign(C, [128, 64])
    kind, ours = classify(foreign)
    assert kind.type == "desc<f16,128x64>"
    assert classify(foreign)[1] is ours
    foreign.block_shape[0] = 32
    assert classify(foreign)[0].type == "desc<f16,32x64>"


def test_enumerators_are_the_driver_s() -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    names = {"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64"}
    names |= {"u8": "UINT8", "i32": "INT32", "i64": "INT64", "u16": "UINT16", "u32": "UINT32"}
    for ours, theirs in names.items():
        value = getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{theirs}")
        assert tensormap.DATA_TYPES[ours] == int(value)
    for ours, theirs in {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}.items():
        swizzle = getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{theirs}")
        assert tensormap.SWIZZLES[ours] == int(swizzle)
    cluster = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    assert int(cluster) == launch.CLUSTER_DIMENSION


def test_structures_have_the_driver_s_layout() -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    shape = attribute.value.clusterDim
    shape.x, shape.y, shape.z = 2, 3, 4
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = 5, 6, 7
    config.blockDimX, config.blockDimY, config.blockDimZ = 8, 9, 10
    config.sharedMemBytes, config.hStream = 11, 12
    config.attrs, config.numAttrs = [attribute], 1
    ours = LaunchConfig.from_address(config.getPtr())
    assert (*ours.grid, *ours.block) == (5, 6, 7, 8, 9, 10)
    assert (ours.shared_bytes, ours.stream, ours.attribute_count) == (11, 12, 1)
    assert ours.attributes[0].id == launch.CLUSTER_DIMENSION
    assert tuple(ours.attributes[0].cluster) == (2, 3, 4)
    assert ctypes.sizeof(launch.LaunchAttribute) == 72


class Module(SimpleNamespace):
    """Stands where a library stands that has streams."""


def test_whose_current_stream_a_launch_goes_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    torch = Module(_C=Module(_cuda_getCurrentRawStream=lambda n: (asked.append(n), 70 + n)[1]))
    cupy = Module(cuda=Module(get_current_stream=lambda: Module(ptr=9)))
    for name in ("torch", "cupy", "jax"):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
        assert streams.current_stream(name, 3)() == streams.DEFAULT
    for name, module, stream in (("torch", torch, 73), ("cupy", cupy, 9), ("jax", cupy, 0)):
        monkeypatch.setitem(sys.modules, name, module)
        assert streams.current_stream(name, 3)() == stream
    assert asked == [3]


@pytest.mark.parametrize(
    ("shape", "strides", "size", "expected"),
    [
        ((8, 4), (4, 1), 2, [8]), ((8, 4, 2), (16, 2, 1), 4, [8, 64]), ((7,), (1,), 4, []),
        ((8, 1, 2), (16, 3, 1), 4, [16, 64]), ((1, 8, 2), (5, 2, 1), 4, [8, 16]),
        ((8, 2, 1), (16, 2, 9), 4, [8, 64]), ((2, 2, 2), (16, 2, 1), 1, [2, 16]),
    ],
)  # fmt: skip
def test_strides_that_the_driver_takes(
    shape: tuple[int, ...], strides: tuple[int, ...], size: int, expected: list[int]
) -> None:
    """In bytes, innermost first; of a dimension of one element any that it accepts."""
    assert tensormap.byte_strides(shape, strides, size) == expected


@pytest.mark.parametrize(
    ("element", "box", "swizzle", "fits"),
    [
        ("f16", (128, 64), 128, True), ("f16", (128, 64), 64, False), ("f16", (128, 32), 64, True),
        ("f16", (256, 8), 0, True), ("f16", (257, 8), 0, False), ("f16", (0, 8), 0, False),
        ("f16", (1, 8), 0, True), ("f16", (8, 4), 0, False), ("f16", (8, 12), 0, False),
        ("e4m3", (8, 16), 0, True), ("e4m3", (8, 256), 0, True), ("e4m3", (8, 257), 0, False),
        ("f64", (8, 256), 0, True), ("f64", (8, 16), 128, True), ("f64", (8, 18), 128, False),
    ],
)  # fmt: skip
def test_boxes_that_the_copy_engine_moves(
    element: str, box: tuple[int, ...], swizzle: int, fits: bool
) -> None:
    parameter = TensorMapParam(0, element, box, box, swizzle=swizzle)
    if fits:
        tensormap.check_box(parameter, "a")
    else:
        with pytest.raises(SizeOutOfRange, match="argument `a`"):
            tensormap.check_box(parameter, "a")


def test_a_grid_s_function_asks_for_what_there_is() -> None:
    assert launch.computed_grid(lambda named: (named["n"],), {"n": 3}) == (3,)
    for asked, named in (("m", {"n": 3}), (0, {"n": 3})):
        with pytest.raises(BadGrid, match=f"asks for {asked!r}"):
            launch.computed_grid(lambda named, asked=asked: named[asked], named)

    def other(named: Any) -> Any:
        raise KeyError(*named.get("given", ()))

    with pytest.raises(KeyError, match="'n'"):  # of another mapping
        launch.computed_grid(other, {"n": 3, "given": ("n",)})
    with pytest.raises(BadGrid, match="asks for None"):
        launch.computed_grid(other, {"n": 3})


@pytest.mark.parametrize(
    ("shape", "strides", "reach"),
    [((4, 6), (6, 1), 48), ((4, 6), (8, 1), 60), ((0, 6), (6, 1), 0), ((4, 0), (6, 1), 0),
     ((1, 1), (9, 9), 2), ((4, 6), (0, 1), 12)],
)  # fmt: skip
def test_how_far_a_descriptor_reaches(
    shape: tuple[int, ...], strides: tuple[int, ...], reach: int
) -> None:
    assert Geometry("f16", shape, strides, (1, 1), "zero").reach == reach
