"""CUDA C++ of the micro-benchmarks of barriers, the copy engine, register moves and the clock."""

from __future__ import annotations

from cost_kernels import ROUNDS, cleared, program

STAGES = 4
"""Slots of the ring that copies are streamed through."""
STAMPS = 1024
"""Samples of the clock probe."""

SETUP = """
  if (threadIdx.x == 0) {{
    for (int i = 0; i < 8; ++i) mbarrier_init(smem + {at} + 8 * i, {arrivals});
    fence_barrier_init();
  }}
  __syncthreads();"""


def mbarriers() -> str:
    """One warp group: clocks of `ROUNDS` satisfied waits (`out[0]`) and arrivals (`out[1]`)."""
    return program(
        f"""{SETUP.format(at=0, arrivals=1)}
  if (threadIdx.x == 0) mbarrier_arrive(smem);
  __syncthreads();
  mbarrier_wait(smem, 0);
  const u32 start = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) mbarrier_wait(smem, 0);
  const u32 waited = now();
  if (threadIdx.x == 0) {{
    const u32 begin = now();
#pragma unroll 1
    for (int r = 0; r < {ROUNDS}; ++r) mbarrier_arrive(smem + 8);
    out[0] = waited - start; out[1] = now() - begin;
  }}""",
        128,
    )


def mbarrier_turns() -> str:
    """Two warp groups wake each other in turn: `out[0]` is the time of `ROUNDS` round trips."""
    return program(
        f"""{SETUP.format(at=0, arrivals=1)}
  const u32 start = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) {{
    if (group == 0) {{
      if (threadIdx.x % 128 == 0) mbarrier_arrive(smem);
      mbarrier_wait(smem + 8, r & 1);
    }} else {{
      mbarrier_wait(smem, r & 1);
      if (threadIdx.x % 128 == 0) mbarrier_arrive(smem + 8);
    }}
  }}
  if (threadIdx.x == 0) out[0] = now() - start;""",
        256,
    )


def named_barriers() -> str:
    """`ROUNDS` meetings of one group, of two groups, round trips, and arrivals by themselves."""
    return program(
        f"""
  __syncthreads();
  const u32 a = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) named_barrier_sync(1 + group, 128);
  const u32 b = now();
  __syncthreads();
  const u32 c = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) named_barrier_sync(3, 256);
  const u32 d = now();
  __syncthreads();
  const u32 e = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) {{
    if (group == 0) {{ named_barrier_arrive(4, 256); named_barrier_sync(5, 256); }}
    else {{ named_barrier_sync(4, 256); named_barrier_arrive(5, 256); }}
  }}
  const u32 f = now();
  u32 arriving = 0, reading = 0;
  __syncthreads();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) {{
    if (group == 0) {{
      const u32 g = now(); named_barrier_arrive(6, 256); const u32 h = now(); const u32 i = now();
      arriving += h - g; reading += i - h;
    }} else named_barrier_sync(6, 256);
    __syncthreads();
  }}
  if (threadIdx.x == 0) {{
    out[0] = b - a; out[1] = d - c; out[2] = f - e; out[3] = arriving - reading;
  }}""",
        256,
    )


def fences() -> str:
    """One group: clocks of `ROUNDS` steps of each kind.

    A store and a proxy fence, stmatrix of 4 matrices, 4 loads of 4 bytes, a store alone, a fence
    alone, a load whose address the load before has brought.
    """
    loads = " ".join(f"sum += shared_load<u32>(at + {512 * i});" for i in range(4))
    return program(
        f"""{cleared(16384, 128)}
  const u32 at = smem + threadIdx.x * 4, row = smem + threadIdx.x * 16;
  u32 sum = 0;
  const u32 a = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) {{ shared_store<u32>(at, r); fence_proxy_async(); }}
  const u32 b = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) {{
    stmatrix(row, r, r, r, r); stmatrix(row + 2048, r, r, r, r);
    stmatrix(row + 4096, r, r, r, r); stmatrix(row + 6144, r, r, r, r);
  }}
  const u32 c = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) {{ {loads} }}
  const u32 d = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) shared_store<u32>(at, r);
  const u32 e = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) fence_proxy_async();
  const u32 f = now();
  u32 place = at;
  shared_store<u32>(at, at); __syncwarp();
  const u32 g = now();
#pragma unroll 1
  for (int r = 0; r < {ROUNDS}; ++r) place = shared_load<u32>(place);
  const u32 h = now();
  if (sum == 12345 || place == 12345) out[63] = 1;
  if (threadIdx.x == 0) {{
    out[0] = b - a; out[1] = c - b; out[2] = d - c; out[3] = e - d; out[4] = f - e; out[5] = h - g;
  }}""",
        128,
    )


def register_moves() -> str:
    """Three groups: clocks of `setmaxnreg` down (group 2) and up (groups 0 and 1)."""
    return program(
        """
  __syncthreads();
  const u32 start = now();
  if (group == 2) {
    set_registers_down<40>();
    if (threadIdx.x % 128 == 0) out[2] = now() - start;
  } else {
    set_registers_up<232>();
    if (threadIdx.x % 128 == 0) out[group] = now() - start;
  }""",
        384,
    )


def copy_latency(rows: int) -> str:
    """One thread loads boxes of `rows` x 64 f16, each after the one before has landed.

    `out[0..7]` are the clocks of eight boxes read the first time, `out[8..15]` the second time.
    """
    return program(
        f"""{SETUP.format(at=65536, arrivals=1)}
  if (threadIdx.x == 0) {{
    for (int r = 0; r < 16; ++r) {{
      const u32 start = now();
      mbarrier_expect(smem + 65536, {rows * 128});
      tma_load(smem, &map, smem + 65536, 0, (r % 8) * {rows});
      mbarrier_wait(smem + 65536, r & 1);
      out[r] = now() - start;
    }}
  }}""",
        128,
        parameters="u32* out, const __grid_constant__ TensorMap map",
    )


def copy_issue() -> str:
    """One thread issues 8 boxes of 8 x 64 f16, four times: `out[0..3]` are clocks of all 8."""
    return program(
        f"""{SETUP.format(at=65536, arrivals=1)}
  if (threadIdx.x == 0) {{
    for (int r = 0; r < 4; ++r) {{
      mbarrier_expect(smem + 65536, 8192);
      const u32 start = now();
#pragma unroll
      for (int i = 0; i < 8; ++i) tma_load(smem + 1024 * i, &map, smem + 65536, 0, i * 8);
      out[r] = now() - start;
      mbarrier_wait(smem + 65536, r & 1);
    }}
  }}""",
        128,
        parameters="u32* out, const __grid_constant__ TensorMap map",
    )


def copy_stream(rows: int, boxes: int, reach: int, sharing: int) -> str:
    """Every CTA streams `boxes` boxes of `rows` x 64 f16 from `reach` boxes of an array.

    `sharing` neighbours load the same boxes at about the same time, as the CTAs of a product do.
    `out[2 b]`, `out[2 b + 1]`: clocks and nanoseconds of CTA b.
    """
    size = rows * 128
    return program(
        f"""{SETUP.format(at=STAGES * size, arrivals=1)}
  if (threadIdx.x == 0) {{
    const u32 full = smem + {STAGES * size};
    const u32 start = now(); const u64 begin = nanoseconds();
#pragma unroll 1
    for (int i = 0; i < {boxes} + {STAGES}; ++i) {{
      const u32 slot = i % {STAGES};
      if (i >= {STAGES}) mbarrier_wait(full + 8 * slot, (i / {STAGES} - 1) & 1);
      if (i < {boxes}) {{
        mbarrier_expect(full + 8 * slot, {size});
        tma_load(smem + slot * {size}, &map, full + 8 * slot, 0,
                 int((blockIdx.x / {sharing}u + u32(i) * gridDim.x) % {reach}u) * {rows});
      }}
    }}
    out[2 * blockIdx.x] = now() - start; out[2 * blockIdx.x + 1] = u32(nanoseconds() - begin);
  }}""",
        128,
        parameters="u32* out, const __grid_constant__ TensorMap map",
    )


def copy_out(boxes: int, reach: int) -> str:
    """Every CTA stores `boxes` boxes of 64 x 64 f16; two in flight. `out` as in `copy_stream`."""
    return program(
        f"""{cleared(16384, 128)}
  if (threadIdx.x == 0) {{
    const u32 start = now(); const u64 begin = nanoseconds();
#pragma unroll 1
    for (int i = 0; i < {boxes}; ++i) {{
      tma_store(&map, smem + (i & 1) * 8192, 0,
                int((blockIdx.x + u32(i) * gridDim.x) % {reach}u) * 64);
      bulk_commit(); bulk_wait_read<1>();
    }}
    bulk_wait_read<0>();
    out[2 * blockIdx.x] = now() - start; out[2 * blockIdx.x + 1] = u32(nanoseconds() - begin);
  }}""",
        128,
        parameters="u32* out, const __grid_constant__ TensorMap map",
    )


def clock_probe() -> str:
    """One warp that writes (nanoseconds, clock) pairs, 64 bits each, about every 10 us."""
    return program(
        f"""
  if (threadIdx.x == 0) {{
    u64* pairs = reinterpret_cast<u64*>(out);
    u64 next = nanoseconds();
#pragma unroll 1
    for (int i = 0; i < {STAMPS}; ++i) {{
      u64 time = nanoseconds();
      while (time < next) {{ __nanosleep(500); time = nanoseconds(); }}
      pairs[2 * i] = time; pairs[2 * i + 1] = clocks();
      next = time + 10000;
    }}
  }}""",
        32,
    )


def stamp() -> str:
    """The time, in nanoseconds, appended to `out` (its first word counts the stamps)."""
    return program(
        """
  if (threadIdx.x == 0) {
    u64* times = reinterpret_cast<u64*>(out);
    const u64 count = times[0];
    times[1 + count] = nanoseconds(); times[0] = count + 1;
  }""",
        32,
    )
