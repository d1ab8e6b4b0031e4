"""CUDA C++ of the micro-benchmarks: one small kernel for each cost that the timing model needs.

Instructions are the compiler's own wrappers (`tawa.hopper.dialect.prelude`), so what is timed is
what generated kernels execute. Times are differences of `%clock`, a multiprocessor's 32-bit
counter.
"""

from __future__ import annotations

from tawa.hopper.emit import definitions
from tawa.ir.scalars.prelude import ELEMENT_TYPES

COUNTS = (1, 2, 4, 8, 16, 32)
"""Matrix instructions of the groups that are timed."""
ROUNDS = 32
"""Repetitions of what is timed as a loop."""
WIDTH = 64
"""Registers of the fragments that ordinary code is timed on."""

TIME = """
__device__ __forceinline__ u32 now() {
  u32 t;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(t) :: "memory");
  return t;
}
__device__ __forceinline__ u64 nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) :: "memory");
  return t;
}
__device__ __forceinline__ u64 clocks() {
  u64 t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory");
  return t;
}
__device__ __forceinline__ f32 ex2(f32 x) {
  f32 y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ u32 pack(f32 a, f32 b) {
  u32 y;
  asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(b), "f"(a));
  return y;
}
template <int count> __device__ __forceinline__ u32 used(u32 (&words)[count]) {
  u32 all = 0;
  for (int i = 0; i < count; ++i) all ^= words[i];
  return all;
}
"""


def program(body: str, threads: int, *, parameters: str = "u32* out", wrappers: str = "") -> str:
    """A program with one kernel `probe`; `smem` is its shared memory, zeroed and fenced."""
    text = f"""
extern "C" __global__ void __launch_bounds__({threads}, 1) probe({parameters}) {{
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const u32 smem = shared_address(shared_memory);
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), group = warp / 4;
  (void)smem; (void)group; (void)warp;
{body}
}}
"""
    header = "struct alignas(64) TensorMap { char bytes[128]; };\n"
    needed = definitions(text + wrappers + TIME)
    return f"{ELEMENT_TYPES}{header}{needed}\n{TIME}\n{wrappers}\n{text}"


def cleared(size: int, threads: int) -> str:
    """Text that zeroes `size` bytes of shared memory and lets the engines see it."""
    return f"""
  for (int i = threadIdx.x * 4; i < {size}; i += {threads} * 4) shared_store<u32>(smem + i, 0u);
  fence_proxy_async();
  __syncthreads();"""


def wgmma_wrapper(n: int, from_registers: bool, transposed: bool) -> str:
    """`mma(d, a, b)`: one m64nNk16 instruction on f16 operands; B may be contiguous along N."""
    count = n // 2
    registers = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    if from_registers:
        a = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}"
        inputs = ", ".join(f'"r"(a[{i}])' for i in range(4)) + ', "l"(b)'
        parameter, b, turned = "const u32* a", f"%{count + 4}", f"{int(transposed)}"
    else:
        a, inputs = f"%{count}", '"l"(a), "l"(b)'
        parameter, b, turned = "u64 a", f"%{count + 1}", f"0, {int(transposed)}"
    return (
        f"__device__ __forceinline__ void mma(f32* d, {parameter}, u64 b) {{\n"
        f'  asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 "\n'
        f'    "{{{registers}}}, {a}, {b}, 1, 1, 1, {turned};" : {outputs} : {inputs});\n}}\n'
    )


def _operands(n: int, from_registers: bool, transposed: bool) -> str:
    """Text that declares accumulators and operands; A and B lie in separate parts."""
    step, lbo = (128, 8192) if transposed else (2, 16)
    a = "u32 a[4] = {out[70], out[71], out[72], out[73]};" if from_registers else ""
    return f"""
  f32 d[{n // 2}];
  for (int i = 0; i < {n // 2}; ++i) d[i] = 0.f;
  {a}
  const u64 ta = matrix_desc(smem + group * 8192, 16, 1024, 1);
  const u64 tb = matrix_desc(smem + 32768, {lbo}, 1024, 1);
  (void)ta;
  #define A(i) {"a" if from_registers else "ta + (i) % 4 * 2"}
  #define B(i) tb + (i) % 4 * {step}
  pin(d); wgmma_fence(); mma(d, A(0), B(0)); wgmma_commit(); wgmma_wait<0>(); pin(d);"""


def _timed_group(count: int, place: int) -> str:
    """One group of `count` instructions: clocks to its commit and to the end of its wait."""
    issues = "\n    ".join(f"mma(d, A({i}), B({i}));" for i in range(count))
    return f"""
  __syncthreads();
  {{ const u32 start = now(); wgmma_fence();
    {issues}
    wgmma_commit(); const u32 issued = now(); wgmma_wait<0>(); const u32 done = now(); pin(d);
    if (threadIdx.x % 128 == 0) {{
      u32* found = out + group * 64 + {2 * place};
      found[0] = issued - start; found[1] = done - start;
    }} }}"""


def _timed_loop(pending: int, place: int) -> str:
    """`ROUNDS` groups of 4 instructions with `pending` left in flight: clocks of all."""
    return f"""
  __syncthreads();
  {{ const u32 start = now();
#pragma unroll 1
    for (int r = 0; r < {ROUNDS}; ++r) {{
      wgmma_fence();
      mma(d, A(0), B(0)); mma(d, A(1), B(1)); mma(d, A(2), B(2)); mma(d, A(3), B(3));
      wgmma_commit(); wgmma_wait<{pending}>(); pin(d);
    }}
    wgmma_wait<0>(); pin(d);
    const u32 done = now();
    if (threadIdx.x % 128 == 0) out[group * 64 + {place}] = done - start; }}"""


def matrix(n: int, groups: int, from_registers: bool, transposed: bool) -> str:
    """Groups of `COUNTS` instructions issued at once by all warp groups, then two loops.

    `out[64 g + 2 i]` is the issue and `[2 i + 1]` the completion of `COUNTS[i]` instructions of
    group g; `[40]` and `[41]` are loops of `ROUNDS` groups of 4 with none and one in flight.
    """
    body = [cleared(65536, 128 * groups), _operands(n, from_registers, transposed)]
    body += [_timed_group(count, i) for i, count in enumerate(COUNTS)]
    body += [_timed_loop(0, 40), _timed_loop(1, 41)]
    body.append("\n  if (d[0] == 12345.f) out[63] = 1;")
    wrapper = wgmma_wrapper(n, from_registers, transposed)
    return program("".join(body), 128 * groups, wrappers=wrapper)


PIPES: dict[str, str] = {
    "fadd": 'asm volatile("add.f32 %0, %0, %1;" : "+f"(x[i]) : "f"(c));',
    "ffma": 'asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[i]) : "f"(c));',
    "fmnmx": 'asm volatile("max.f32 %0, %0, %1;" : "+f"(x[i]) : "f"(c));',
    "imad": 'asm volatile("mad.lo.u32 %0, %0, %1, %1;" : "+r"(n[i]) : "r"(m));',
    "pack": 'asm volatile("{.reg .f32 t; mov.b32 t, %0; cvt.rn.f16x2.f32 %0, %1, t;}"'
    ' : "+r"(n[i]) : "f"(c));',
    "ex2": 'asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[i]));',
    "shfl": 'asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;" : "+r"(n[i]));',
    "fadd+vote": 'asm volatile("add.f32 %0, %0, %1;" : "+f"(x[i]) : "f"(c)); '
    "if (__any_sync(0xffffffffu, x[i] > 1e30f)) out[62] = 1;",
    "ffma+ex2": 'asm volatile("fma.rn.f32 %0, %0, %1, %1; ex2.approx.ftz.f32 %0, %0;"'
    ' : "+f"(x[i]) : "f"(c));',
}
"""Instructions whose throughput and latency are measured, on register i."""


def pipe(text: str, threads: int, chains: int) -> str:
    """`16 ROUNDS` repetitions of an instruction on each of `chains` registers of a thread."""
    return program(
        f"""
  f32 x[{chains}]; u32 n[{chains}]; const f32 c = f32(threadIdx.x) * 1e-9f; const u32 m = now();
  for (int i = 0; i < {chains}; ++i) {{ x[i] = c * i; n[i] = threadIdx.x + i; }}
  (void)m; (void)c;
  __syncthreads();
  const u32 start = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) {{
#pragma unroll
    for (int k = 0; k < 16; ++k) {{
#pragma unroll
      for (int i = 0; i < {chains}; ++i) {{ {text} }}
    }}
  }}
  const u32 done = now();
  f32 sum = 0.f; for (int i = 0; i < {chains}; ++i) sum += x[i] + f32(n[i]);
  if (sum == 12345.f) out[63] = 1;
  if (threadIdx.x == 0) out[0] = done - start;""",
        threads,
    )


JUMPED = 384
"""Instructions of an iteration that `jumps` times, without jumps and what they skip."""


def jumps(threads: int, count: int, skipped: int) -> str:
    """`ROUNDS` iterations of `JUMPED` additions, with jumps over so many that never run."""

    def add(times: int) -> str:
        return (
            f'_Pragma("unroll") for (int k = 0; k < {times // 8}; ++k) {{\n'
            '_Pragma("unroll") for (int i = 0; i < 8; ++i)\n'
            f"  {PIPES['fadd']}\n}}\n"
        )

    jump = f"if (never) {{ {add(skipped)} }}\n"
    pieces = add(JUMPED // (count + 1))
    return program(
        f"""
  f32 x[8]; const f32 c = f32(threadIdx.x) * 1e-9f; const bool never = out[60] == 77;
  for (int i = 0; i < 8; ++i) x[i] = c * i;
  __syncthreads();
  const u32 start = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) {{ {jump.join([pieces] * (count + 1))} }}
  const u32 done = now();
  f32 sum = 0.f; for (int i = 0; i < 8; ++i) sum += x[i];
  if (sum == 12345.f) out[63] = 1;
  if (threadIdx.x == 0) out[0] = done - start;""",
        threads,
    )


SOFTMAX = f"""
  {{
    f32 part[4] = {{s[0], s[1], s[2], s[3]}};
#pragma unroll
    for (int i = 4; i < {WIDTH}; i += 4)
      for (int j = 0; j < 4; ++j) part[j] = fmaxf(part[j], s[i + j]);
    f32 high = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
    high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
    high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
    const f32 next = fmaxf(top, high), shift = next * scale, again = ex2(top * scale - shift);
    top = next;
#pragma unroll
    for (int i = 0; i < {WIDTH}; ++i) p[i] = ex2(s[i] * scale - shift);
    f32 sum[4] = {{p[0], p[1], p[2], p[3]}};
#pragma unroll
    for (int i = 4; i < {WIDTH}; i += 4)
      for (int j = 0; j < 4; ++j) sum[j] += p[i + j];
    total = total * again + (sum[0] + sum[1] + (sum[2] + sum[3]));
#pragma unroll
    for (int i = 0; i < {WIDTH}; i += 2) words[i / 2] = pack(p[i], p[i + 1]);
  }}"""
"""An online softmax of a fragment: maximum, two shuffles, exponentials, sum, packing."""

SOFTMAX_STATE = f"""
  f32 s[{WIDTH}], p[{WIDTH}]; u32 words[{WIDTH // 2}] = {{}}; f32 top = -1e30f, total = 0.f;
  const f32 scale = 0.1f;
  for (int i = 0; i < {WIDTH}; ++i) s[i] = f32(threadIdx.x % 7) * 0.01f * i;"""


def softmax(threads: int) -> str:
    """`ROUNDS` softmaxes in every warp; `out[g]` is group g's time."""
    return program(
        f"""{SOFTMAX_STATE}
  __syncthreads();
  const u32 start = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) {{ pin(s); {SOFTMAX} pin(words); }}
  const u32 done = now();
  if (total == 12345.f) out[63] = used(words);
  if (threadIdx.x % 128 == 0) out[group] = done - start;""",
        threads,
    )


def contention(n: int, softmaxes: int) -> str:
    """Group 0 keeps the tensor core busy while the others compute softmaxes.

    `out[0]` is the time of `4 ROUNDS` groups of 4 instructions, `out[g]` of `ROUNDS` softmaxes.
    """
    threads = 128 * (1 + softmaxes)
    return program(
        f"""{cleared(65536, threads)}
  if (group == 0) {{{_operands(n, False, False)}
    __syncthreads();
    const u32 start = now();
#pragma unroll 1
    for (int r = 0; r < {4 * ROUNDS}; ++r) {{
      wgmma_fence();
      mma(d, A(0), B(0)); mma(d, A(1), B(1)); mma(d, A(2), B(2)); mma(d, A(3), B(3));
      wgmma_commit(); wgmma_wait<1>(); pin(d);
    }}
    wgmma_wait<0>(); pin(d);
    const u32 done = now();
    if (d[0] == 12345.f) out[63] = 1;
    if (threadIdx.x == 0) out[0] = done - start;
  }} else {{{SOFTMAX_STATE}
    __syncthreads();
    const u32 start = now();
#pragma unroll 1
    for (int r = 0; r < {ROUNDS}; ++r) {{ pin(s); {SOFTMAX} pin(words); }}
    const u32 done = now();
    if (total == 12345.f) out[63] = used(words);
    if (threadIdx.x % 128 == 0) out[group] = done - start;
  }}""",
        threads,
        wrappers=wgmma_wrapper(n, False, False),
    )


def shadow(n: int, count: int, groups: int) -> str:
    """Each group issues `count` instructions, computes a softmax meanwhile, then waits.

    `out[g]` is the time of `ROUNDS` such turns: attention's inner loop without its dependences.
    """
    issues = " ".join(f"mma(d, A({i}), B({i}));" for i in range(count))
    return program(
        f"""{cleared(65536, 128 * groups)}{_operands(n, False, False)}{SOFTMAX_STATE}
  __syncthreads();
  const u32 start = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) {{
    wgmma_fence(); {issues} wgmma_commit();
    pin(s); {SOFTMAX} pin(words);
    wgmma_wait<0>(); pin(d);
  }}
  const u32 done = now();
  if (total == 12345.f || d[0] == 12345.f) out[63] = used(words);
  if (threadIdx.x % 128 == 0) out[group] = done - start;""",
        128 * groups,
        wrappers=wgmma_wrapper(n, False, False),
    )
