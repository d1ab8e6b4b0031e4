"""What Triton's unit tests expect around them, as a plugin of pytest: used by triton_tests.py.

Fixtures, the module of helpers that the tests import, and, where there is no GPU, tensors of the
"cuda" device in the CPU's memory, whose kernels run in the simulator. One line of JSON is written
for each test that starts and ends, so that a crash is known by the test that did not end. A test
that breaks the GPU's context ends its process.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import types
import warnings
from collections import defaultdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tawa
from tawa.base.errors import TawaError
from tawa.driver import jit
from tawa.driver.entries import SIMULATOR, place_of
from tawa.driver.host_launch import SimulatedOnly

GPU = torch.cuda.is_available()
MODE = os.environ.get("TRITON_TESTS_MODE", "provide")
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["u" + name for name in SIGNED]
FLOATS = ["float16", "float32", "float64"]
ALL = SIGNED + UNSIGNED + FLOATS
NOT_OURS = "looks at Triton's own IR"
ELSEWHERE = "is for another target"

if MODE == "provide":
    sys.modules.setdefault("triton", None)  # type: ignore[arg-type]  # as if not installed
    if not tawa.provide_triton():
        raise SystemExit("Triton was imported before it could be hidden")
elif MODE == "enable":
    tawa.enable(strict=True)
import triton  # noqa: E402  # this is Tawa, unless the mode says otherwise
import triton.language as tl  # noqa: E402
from triton.runtime.jit import TensorWrapper, reinterpret  # noqa: E402

# --- the modules that tests import --------------------------------------------------------------


def numpy_random(shape: Any, dtype_str: str, rs: Any = None, low: Any = None, high: Any = None):
    """Random elements of a type: integers of the whole range but zero, normal floats."""
    rs = rs or np.random.RandomState(seed=17)
    shape = (shape,) if isinstance(shape, int) else shape
    if dtype_str in SIGNED + UNSIGNED:
        info = np.iinfo(dtype_str)
        low = info.min if low is None else max(low, info.min)
        high = info.max if high is None else min(high, info.max)
        drawn = rs.randint(low, high, shape, dtype=dtype_str)
        return np.where(drawn == 0, np.ones_like(drawn), drawn)
    if "float8" in dtype_str:
        return rs.randint(20, 40, shape, dtype=np.int8)
    drawn = rs.normal(0, 1, shape)
    if dtype_str == "bfloat16":
        bits = drawn.astype(np.float32).view(np.uint32)
        return (bits & np.uint32(0xFFFF0000)).view(np.float32)
    return drawn > 0 if dtype_str in ("bool", "int1", "bool_") else drawn.astype(dtype_str)


def to_triton(x: np.ndarray, device: Any, dst_type: str | None = None) -> Any:
    """A tensor of an array; of unsigned, bf16 and fp8 elements where they are asked for."""
    name = x.dtype.name
    if name in UNSIGNED:
        return reinterpret(torch.tensor(x.view(name[1:]), device=device), getattr(tl, name))
    if dst_type and "float8" in dst_type:
        return reinterpret(torch.tensor(x, device=device), getattr(tl, dst_type))
    tensor = torch.tensor(x, device=device)
    return tensor.bfloat16() if name == "float32" and dst_type == "bfloat16" else tensor


def to_numpy(x: Any) -> np.ndarray:
    """The array of a tensor, or of one seen with another type."""
    if isinstance(x, TensorWrapper):
        return x.base.cpu().numpy().astype(getattr(np, re.split(r"[.]", str(x.dtype))[-1]))
    return (x.cpu().float() if x.dtype is torch.bfloat16 else x.cpu()).numpy()


NAMED = {"bool": tl.int1, "float8_e4m3fn": tl.float8e4nv, "float8_e5m2": tl.float8e5}


def _helpers() -> dict[str, Any]:
    other = (
        "is_interpreter is_blackwell is_sm12x is_hip is_hip_cdna is_hip_cdna2 is_hip_cdna3 "
        "is_hip_cdna4 is_hip_gfx11 is_hip_gfx12 is_hip_gfx1250 is_xpu"
    )
    here = "is_cuda is_hopper is_hopper_or_newer is_ampere_or_newer supports_tma supports_ws"
    return {
        **{name: lambda *_: False for name in other.split()},
        **{name: lambda *_: True for name in here.split()},
        "int_dtypes": SIGNED, "uint_dtypes": UNSIGNED, "integral_dtypes": SIGNED + UNSIGNED,
        "float_dtypes": FLOATS, "float_dtypes_with_bfloat16": [*FLOATS, "bfloat16"],
        "dtypes": ALL, "dtypes_with_bfloat16": [*ALL, "bfloat16"],
        "torch_float8_dtypes": ["float8_e4m3fn", "float8_e5m2"],
        "torch_dtypes": ["bool", *SIGNED, "uint8", *FLOATS, "bfloat16"],
        "tma_dtypes": sorted({*ALL, "bfloat16"} - {"int64", "uint64", "float64"}),
        "str_to_triton_dtype": lambda x: NAMED.get(x) or getattr(tl, x),
        "torch_dtype_name": lambda x: str(x).rpartition(".")[2],
        "get_arch": lambda: "90", "get_hip_lds_size": lambda: 65536,
        "numpy_random": numpy_random, "to_triton": to_triton, "to_numpy": to_numpy,
        "unwrap_tensor": lambda x: x.base if isinstance(x, TensorWrapper) else x,
        "requires_tma": pytest.mark.skipif(False, reason=""),
        "default_alloc_fn": lambda size, align, stream: torch.empty(
            size, device="cuda", dtype=torch.int8
        ),
    }  # fmt: skip


def _not_ours(*_: Any, **__: Any) -> Any:
    pytest.skip(NOT_OURS)


def _skipped_test(function: Any) -> Any:
    @pytest.mark.skip(reason=NOT_OURS)
    def test() -> None: ...

    test.__name__ = function.__name__
    return test


def _provide(name: str, contents: dict[str, Any]) -> None:
    module = types.ModuleType(name)
    vars(module).update(contents)
    sys.modules[name] = module
    setattr(triton, name.rpartition(".")[2], module)


class _Products:
    """What tests compare products with: `a @ b.T`, by PyTorch."""

    def __init__(self, workspace: Any) -> None:
        del workspace

    @classmethod
    def CublasLt(cls, workspace: Any) -> _Products:  # the name is Triton's
        return cls(workspace)

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        c.copy_(a.float() @ b.float().T)


if MODE == "provide":
    _provide("triton._internal_testing", _helpers())
    _provide(
        "triton._filecheck",
        {"filecheck_test": _skipped_test, "run_filecheck_test": _not_ours,
         "run_parser": _not_ours, "run_filecheck": _not_ours},
    )  # fmt: skip
    _provide("triton._C", {})
    _provide("triton._C.libtriton", {"nvidia": types.SimpleNamespace(cublas=_Products)})
    triton.language.core._aggregate = lambda cls: cls  # only tests of IR text use it


# --- tensors ------------------------------------------------------------------------------------


class _OnTheCPU(torch.overrides.TorchFunctionMode):
    """Tensors that are asked for on "cuda" are made in the CPU's memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        kwargs = {name: _place(value) for name, value in (kwargs or {}).items()}
        return func(*map(_place, args), **kwargs)


def _place(value: Any) -> Any:
    named = isinstance(value, str | torch.device) and str(value).startswith("cuda")
    return ("cpu" if isinstance(value, str) else torch.device("cpu")) if named else value


_PRESENT = types.SimpleNamespace(
    get_current_target=lambda: triton.backends.compiler.GPUTarget("cuda", 90, 32),
    get_current_device=lambda: 0,
    get_current_stream=lambda device=0: 0,
    get_device_interface=lambda: torch.cuda,
    get_active_torch_device=lambda: torch.device("cpu"),
    utils=types.SimpleNamespace(
        get_device_properties=lambda device: {"max_shared_mem": 232448, "multiprocessor_count": 132}
    ),
)
"""What stands for the driver of an installed Triton."""

if not GPU:
    _OnTheCPU().__enter__()
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(multi_processor_count=132)
    torch.cuda.get_device_name = lambda *_: "NVIDIA H200"
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.current_device = lambda: 0
    jit.place_of = lambda kinds, device: place_of(kinds, device or SIMULATOR)
    driver = type(triton.runtime.driver)
    if MODE == "provide":
        driver.active = property(lambda self: self._driver)  # what tests ask of it needs no device
    else:
        driver.active = property(lambda self: _PRESENT)


@pytest.fixture
def device() -> str:
    """Where tests make their tensors."""
    return "cuda" if GPU else "cpu"


@pytest.fixture
def fresh_triton_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, where an installed Triton keeps what it compiles."""
    if MODE != "provide":
        monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path))
    return tmp_path


@pytest.fixture
def fresh_knobs() -> Any:
    """The settings, which are as before after a test."""
    if MODE != "provide":
        fresh, reset = triton._internal_testing._fresh_knobs_impl()
        yield fresh()
        reset()
        return
    groups = [vars(triton.knobs.runtime), vars(triton.knobs.language)]
    before = [dict(group) for group in groups]
    yield triton.knobs
    for group, old in zip(groups, before, strict=True):
        group.update(old)


@pytest.fixture
def with_allocator() -> Any:
    """Memory for descriptors, of which Tawa needs none."""
    if MODE == "provide":
        yield
        return
    from triton.runtime._allocation import NullAllocator

    triton.set_allocator(triton._internal_testing.default_alloc_fn)
    yield
    triton.set_allocator(NullAllocator())


# --- which tests run, and what became of them ---------------------------------------------------

LOG = Path(os.environ["TRITON_TESTS_LOG"])
BROKEN = 77  # the code of a process whose GPU context a test broke
LIMIT = int(os.environ.get("TRITON_TESTS_LIMIT", "60"))


def _note(**fields: Any) -> None:
    with LOG.open("a") as file:
        file.write(json.dumps(fields) + "\n")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """A number of cases of each test function, less those that an earlier process began.

    The same cases each time; the first of all functions, then the second, so that a run that ends
    early has seen each function.
    """
    number, done = int(os.environ["TRITON_TESTS_CASES"]), os.environ.get("TRITON_TESTS_DONE")
    shard, shards = map(int, os.environ.get("TRITON_TESTS_SHARD", "0/1").split("/"))
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    for item in sorted(items, key=lambda item: item.nodeid):
        groups[item.nodeid.partition("[")[0]].append(item)
    for name, cases in groups.items():
        random.Random(name + os.environ.get("TRITON_TESTS_SEED", "")).shuffle(cases)
    rounds = zip_longest(*(cases[:number] for cases in groups.values()))
    chosen = [case for cases in rounds for case in cases if case is not None]
    if again := os.environ.get("TRITON_TESTS_AGAIN"):
        rows = [json.loads(line) for line in Path(again).read_text().splitlines()]
        failed = {row["test"] for row in rows if row["outcome"] not in ("passed", "skipped")}
        chosen = [item for item in chosen if item.nodeid in failed]
    if without := os.environ.get("TRITON_TESTS_WITHOUT"):
        rows = [json.loads(line) for line in Path(without).read_text().splitlines()]
        before = {row["test"] for row in rows}
        chosen = [item for item in chosen if item.nodeid not in before]
    begun = set(json.loads(Path(done).read_text())) if done else set()
    items[:] = [item for item in chosen[shard::shards] if item.nodeid not in begun]
    _note(collected=len(chosen))


class OutOfTime(BaseException):
    """A test took longer than it may."""


def _stop(*_: Any) -> None:
    raise OutOfTime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Any:
    """Bound a test's time."""
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(LIMIT)
    try:
        with warnings.catch_warnings():  # a kernel that only the simulator runs is refused
            warnings.simplefilter("error", SimulatedOnly)
            result = yield
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()  # what a kernel did wrong is said of its own test
            return result
    except OutOfTime:
        pytest.fail("out of time")
    finally:
        signal.alarm(0)


def pytest_runtest_logstart(nodeid: str) -> None:
    """A test begins."""
    _note(test=nodeid, began=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """A test has ended: how, and why."""
    report = yield
    if report.when == "call" or report.outcome != "passed":
        outcome, why = report.outcome, ""
        if report.outcome == "failed" and _reads_ir(call.excinfo):
            outcome, why = "skipped", NOT_OURS
        elif report.outcome == "failed" and _is_elsewhere(call.excinfo):
            outcome, why = "skipped", ELSEWHERE
        elif report.outcome == "failed":
            outcome, why = _cause(call.excinfo)
        elif report.outcome == "skipped":
            why = str(getattr(report, "wasxfail", "") or report.longrepr)
        seconds = round(report.duration, 2)
        failed = outcome not in ("passed", "skipped")
        said = {"said": _said(call.excinfo)} if failed else {}
        _note(test=item.nodeid, outcome=outcome, why=why[:400], seconds=seconds, **said)
        if failed and _is_broken():
            os._exit(BROKEN)
    return report


def _is_broken() -> bool:
    """Whether the GPU's context is of no more use, after an access out of bounds, say."""
    try:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def _said(excinfo: Any) -> str:
    """The statement of a test that failed, and the last lines of what the error says."""
    last = [entry for entry in excinfo.traceback if Path(str(entry.path)).name.startswith("test_")]
    place = [f"{last[-1].lineno + 1}: {str(last[-1].statement).strip()}"[:200]] if last else []
    lines = [line for line in str(excinfo.value).splitlines() if line.strip()]
    return "\n".join([*place, *(line[:160] for line in lines[-8:])])[:900]


def _reads_ir(excinfo: Any) -> bool:
    """Whether what fails is a statement of a test about the text of Triton's own IR."""
    last = [entry for entry in excinfo.traceback if Path(str(entry.path)).name.startswith("test_")]
    asked = isinstance(excinfo.value, AssertionError | KeyError | AttributeError)
    return asked and bool(last) and re.search(r"ttg?ir|llir", str(last[-1].statement)) is not None


def _is_elsewhere(excinfo: Any) -> bool:
    """Whether a test compiles for another kind of GPU, which is refused."""
    return type(excinfo.value).__name__ == "OtherTarget"


def _cause(excinfo: Any) -> tuple[str, str]:
    """What kind of failure an exception is, and what it says."""
    error = excinfo.value
    first = str(error).strip().partition("\n")[0]
    if isinstance(error, TawaError | SimulatedOnly):
        first = str(error).strip().partition("\n")[2].partition("\n")[0] or first
        first = first if isinstance(error, SimulatedOnly) else error.message
        return "refused", f"{type(error).__name__}: {first}"
    frames = [str(entry.path) for entry in excinfo.traceback]
    if type(error).__name__ == "Failed":
        return ("slow", first) if "out of time" in first else ("accepted", first)
    if isinstance(error, AssertionError) and "/tawa/" not in frames[-1]:
        return "wrong", first or "AssertionError"
    own = [entry for entry in excinfo.traceback if "/src/tawa/" in str(entry.path)]
    place = f" ({Path(str(own[-1].path)).name}:{own[-1].lineno + 1})" if own else ""
    return ("crashed" if own else "failed"), f"{type(error).__name__}: {first}{place}"
