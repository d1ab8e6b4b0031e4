"""Compilation with NVRTC, the compile log and the machine code, on kernels written for each case."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tawa.runtime import nvrtc, sass
from tawa.runtime.compile_log import Finding, FunctionUsage, missing_registers, parse_log
from tawa.runtime.nvrtc import CudaCompileError, compile_cuda

TARGET = "sm_90a"

CLEAN = """
extern "C" __global__ void __launch_bounds__(128, 1) axpy(float *y, const float *x, float a, int n) {
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) y[i] += a * x[i];
}
"""

SPILL = """
extern "C" __global__ void spill(float *p, int n) {
  float a[40];
  #pragma unroll
  for (int i = 0; i < 40; i++) a[i] = p[i * 32 + threadIdx.x];
  for (int k = 0; k < n; k++) {
    #pragma unroll
    for (int i = 0; i < 40; i++) a[i] = a[i] * p[k] + a[(i * 7 + 3) % 40];
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < 40; i++) p[i * 32 + threadIdx.x] = a[i];
}
"""

LOCAL = """
extern "C" __global__ void local(float *p, int n) {
  float a[40];
  for (int i = 0; i < 40; i++) a[i] = p[i * 32 + threadIdx.x];
  for (int k = 0; k < n; k++) a[(k * 13) % 40] += a[(k * 7 + n) % 40];
  p[threadIdx.x] = a[n % 40];
}
"""

FENCE = """
extern "C" __global__ void fence(int *flag, int n) {
  %s
  for (int i = 0; i < n; i++) { flag[i] = i; %s }
}
"""


def matrix_kernel(body: str) -> str:
    """A kernel with one m64n8k16 accumulator `d`, descriptors `a` and `b` and the given body."""
    wgmma = (
        'asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, '
        '1, 1, 1, 0, 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));'
    )
    body = body.replace("WGMMA", wgmma)
    for name in ("fence", "commit_group"):
        body = body.replace(
            name.upper(), f'asm volatile("wgmma.{name}.sync.aligned;" ::: "memory");'
        )
    body = re.sub(
        r"WAIT(\d)", r'asm volatile("wgmma.wait_group.sync.aligned \1;" ::: "memory");', body
    )
    return (
        'extern "C" __global__ void __launch_bounds__(128, 1) matrix(float *p, '
        "unsigned long long a, unsigned long long b, int n) {\n"
        "  float d[4] = {0, 0, 0, 0};\n"
        f"  WAIT0\n  {body}\n"
        "  for (int i = 0; i < 4; i++) p[threadIdx.x * 4 + i] = d[i];\n}\n"
    ).replace("WAIT0", 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");')


GOOD_LOOP = "for (int i = 0; i < n; i++) { FENCE WGMMA COMMIT_GROUP WAIT1 } WAIT0"
EARLY_READ = "for (int i = 0; i < n; i++) { FENCE WGMMA COMMIT_GROUP p[i] = d[0]; WAIT0 }"


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (Finding("register spills", "8 bytes"), "register spills: 8 bytes"),
        (Finding("register spills", "8 bytes", function="f"), "register spills in f: 8 bytes"),
        (Finding("local memory", "a", code="C7510"), "local memory: a [C7510]"),
    ],
)
def test_what_is_said_of_a_finding(finding: Finding, text: str) -> None:
    assert str(finding) == text


def test_a_clean_kernel_has_no_findings() -> None:
    compiled = compile_cuda(CLEAN, TARGET)
    usage = compiled.report.function("axpy")
    assert compiled.report.findings() == ()
    assert usage.registers > 0
    assert usage.spill_stores == usage.stack == 0
    assert ".target sm_90a" in compiled.ptx
    code = sass.disassemble(compiled.cubin)["axpy"]
    assert code.count("FFMA") >= 1
    assert code.count("LDL") == code.count("STL") == 0


def test_spills_are_reported_and_are_in_the_machine_code() -> None:
    compiled = compile_cuda(SPILL, TARGET, options=("-maxrregcount=24",))
    usage = compiled.report.function("spill")
    assert usage.registers == 24
    assert usage.spill_stores > 0
    assert [finding.kind for finding in compiled.report.findings()] == ["spill"]
    assert f"{usage.spill_stores} bytes of spill stores" in str(compiled.report.findings()[0])
    assert sass.disassemble(compiled.cubin)["spill"].count("STL") > 0


def test_a_local_array_is_not_called_a_spill() -> None:
    compiled = compile_cuda(LOCAL, TARGET)
    assert [finding.kind for finding in compiled.report.findings()] == ["local memory"]
    assert compiled.report.function("local").stack >= 160
    assert sass.disassemble(compiled.cubin)["local"].count("LDL") > 0


def test_an_overlapped_matrix_loop_is_clean() -> None:
    compiled = compile_cuda(matrix_kernel(GOOD_LOOP), TARGET)
    assert compiled.report.findings() == ()
    code = sass.disassemble(compiled.cubin)["matrix"]
    assert len(code.in_loops("HGMMA")) >= 1


def test_reading_an_accumulator_in_flight_is_reported() -> None:
    report = compile_cuda(matrix_kernel(EARLY_READ), TARGET).report
    assert [finding.code for finding in report.of_kind("wgmma serialised")] == ["C7514"]
    assert report.of_kind("wgmma serialised")[0].function == "matrix"


def test_a_call_inside_the_matrix_pipeline_is_reported() -> None:
    body = GOOD_LOOP.replace("WAIT1", 'if (n == 77) printf("%d", i); WAIT1')
    report = compile_cuda(matrix_kernel(body), TARGET).report
    assert "C7510" in [finding.code for finding in report.of_kind("wgmma serialised")]


def test_an_ignored_setmaxnreg_is_reported() -> None:
    source = CLEAN.replace("__launch_bounds__(128, 1)", "").replace(
        "for (", 'asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); for (', 1
    )
    report = compile_cuda(source, TARGET).report
    assert [finding.code for finding in report.of_kind("setmaxnreg ignored")] == ["C7508"]


@pytest.mark.parametrize(("inside", "expected"), [(False, 0), (True, 1)])
def test_a_device_wide_fence_in_a_loop_is_told_from_one_outside(
    inside: bool, expected: int
) -> None:
    texts = ("", "__threadfence();") if inside else ("__threadfence();", "")
    code = sass.disassemble(compile_cuda(FENCE % texts, TARGET, options=("-DN",)).cubin)["fence"]
    assert code.count("MEMBAR") >= 1
    assert (len(code.in_loops("MEMBAR")) >= 1) == bool(expected)


def test_rejected_source_shows_the_compiler_s_own_words() -> None:
    with pytest.raises(CudaCompileError, match=r'identifier "undeclared" is undefined') as error:
        compile_cuda("__global__ void k() { undeclared = 1; }", TARGET, name="broken.cu")
    assert "broken.cu" in error.value.message


def test_a_log_of_several_functions() -> None:
    report = parse_log(
        "ptxas info    : Compiling entry function 'one' for 'sm_90a'\n"
        "ptxas info    : Function properties for one\n"
        "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 168 registers, used 5 barriers\n"
        "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are "
        "serialized due to insufficient register resources for the function in the function 'one'\n"
        "ptxas info    : Compiling entry function 'two' for 'sm_90a'\n"
        "ptxas info    : Used 8 registers, used 0 barriers\n"
    )
    one, two = report.functions
    assert (one.registers, one.barriers, one.spill_stores, one.spill_loads) == (168, 5, 4, 12)
    assert (two.name, two.registers) == ("two", 8)
    assert [(f.kind, f.code, f.function) for f in report.findings()] == [
        ("spill", None, "one"),
        ("wgmma serialised", "C7512", "one"),
    ]


def test_registers_that_are_missing_are_read_from_the_log() -> None:
    log = (
        "ptxas fatal   : (C7602) Insufficient registers (80) to compile instruction at line 320 in "
        "function k. Try to compile with register target of 90 or higher.\n"
    )
    assert missing_registers(log) == (80, 90)
    assert missing_registers("ptxas fatal   : (C7601) something else (80) of 90\n") is None


def test_the_version_is_exact() -> None:
    assert re.fullmatch(r"13\.\d+(\.\d+)?", nvrtc.version())


def test_other_bytes_are_not_machine_code() -> None:
    with pytest.raises(sass.NotACubin):
        sass.disassemble(b"not a cubin")


@pytest.mark.parametrize(
    ("wheels", "expected"),
    [
        ({"cuda_bindings": "13.0.2", "nvidia_cuda_nvrtc": "13.0.88"}, "13.0.88"),
        ({"cuda_bindings": "12.9.1", "nvidia_cuda_nvrtc_cu12": "12.9.86"}, "12.9.86"),
        ({"cuda_bindings": "13.0.2", "nvidia_cuda_nvrtc": "12.9.86"}, "7.5"),
        ({"cuda_bindings": "12.9.1", "nvidia_cuda_nvrtc": "13.0.88"}, "7.5"),
        ({"cuda_bindings": "1.0", "nvidia_cuda_nvrtc": "13.0.88"}, "7.5"),
        ({"nvidia_cuda_nvrtc": "13.0.88"}, "7.5"), ({"nvidia_cuda_nvrtc": ".5"}, "7.5"),
        ({"cuda_bindings": "13.0.2"}, "7.5"), ({}, "7.5"),
    ],
)  # fmt: skip
def test_whose_version_counts(
    wheels: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel's where bindings of its major version look there first; else the library's own."""
    library = SimpleNamespace(nvrtcVersion=lambda: (0, 7, 5))
    monkeypatch.setattr(nvrtc, "_installed_wheels", lambda: wheels)
    monkeypatch.setattr(nvrtc, "_nvrtc", lambda: library)
    assert nvrtc.version.__wrapped__() == expected


def test_wheels_that_python_finds_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("a/cuda_bindings-13.0.2", "b/cuda_bindings-12.0", "b/nvidia_cuda_nvrtc-13.0.88",
             "b/numpy-2.0", "nvidia_cuda_nvrtc_cu12-12.9")  # fmt: skip
    for name in names:
        (tmp_path / f"{name}{nvrtc.INFO}").mkdir(parents=True)
    (tmp_path / "b/cuda_core").mkdir()
    monkeypatch.chdir(tmp_path)
    folders = [str(tmp_path / "a"), str(tmp_path / "none"), str(tmp_path / "b")]
    monkeypatch.setattr(nvrtc.sys, "path", folders)
    found = {"cuda_bindings": "13.0.2", "nvidia_cuda_nvrtc": "13.0.88"}
    assert nvrtc._installed_wheels() == found
    monkeypatch.setattr(nvrtc.sys, "path", ["", *folders])
    assert nvrtc._installed_wheels() == {"nvidia_cuda_nvrtc_cu12": "12.9", **found}


def test_how_long_a_compilation_took() -> None:
    assert 0 < compile_cuda(CLEAN, TARGET).seconds < 60


@pytest.mark.parametrize(
    ("usage", "kind", "text"),
    [
        (FunctionUsage("f", 40), "", ""),
        (FunctionUsage("f", spill_stores=8), "spill", "8 bytes of spill stores, 0 of spill loads"),
        (FunctionUsage("f", spill_loads=8), "spill", "0 bytes of spill stores, 8 of spill loads"),
        (FunctionUsage("f", stack=16, spill_loads=8), "spill", "0 bytes of spill stores, 8"),
        (FunctionUsage("f", stack=16), "local memory", "16 bytes of stack"),
    ],
)
def test_what_a_function_s_use_says(usage: FunctionUsage, kind: str, text: str) -> None:
    found = usage.findings()
    assert [(f.kind, f.function) for f in found] == ([(kind, "f")] if kind else [])
    assert all(f.text.startswith(text) for f in found)
