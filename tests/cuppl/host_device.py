"""The CUDA text compiled as plain C++ and run on the CPU, one block after the other.

The threads of a block take turns: each runs until the next `__syncthreads`, or its end; those of
the collector, which has none, run at the same time.
This checks the generated text and the driver where there is no GPU; it says nothing about speed.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tawa.cuppl.gpu.source import chains_source, cuda_source
from tawa.cuppl.lowering.pipeline import Lowered

BLOCK = 4
SHIM = """
#include <functional>
#include <math.h>
#include <string.h>
#include <thread>
#include <ucontext.h>
#include <vector>
#define DEVICE static
#define OUTLINE static
#define INLINE static inline
#define INLINE_MEMBER inline
#define DEVICE_MEMBER
#define UNROLL
#define KERNEL static
#define SMALL_KERNEL static
#define CHAINS_KERNEL static
#define MEMORY(address) (void*)(address)
#define SHARED static
#define TABLE static const
struct Index { unsigned x; };
static thread_local Index threadIdx, blockIdx;
static Index gridDim, blockDim = {BLOCK};
static ucontext_t caller, threads[BLOCK];
static std::vector<char> stacks[BLOCK];
static bool ended[BLOCK];
static unsigned arrived, living, generation;
static unsigned progress;  // times that somebody went on, or ended
static void give_way() { swapcontext(&threads[threadIdx.x], &caller); }
static void go_on_together() {
  if (arrived == 0 || arrived < living) return;
  arrived = 0;
  ++generation;
  ++progress;
}
// Threads that have ended are not waited for.
static inline void __syncthreads() {
  unsigned now = generation;
  ++arrived;
  go_on_together();
  while (generation == now) give_way();
}
template <class T> T atomicAdd(T* p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
template <class T> T atomicOr(T* p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); }
template <class T> T atomicAnd(T* p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST); }
static inline void __threadfence() {}
template <class T> T atomicCAS(T* p, T old, T v) {
  __atomic_compare_exchange_n(p, &old, v, false, 5, 5);
  return old;
}
template <class T> T atomicMax(T* p, T v) {
  T old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
  while (old < v && !__atomic_compare_exchange_n(p, &old, v, false, 5, 5)) {}
  return old;
}
static inline long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
static inline double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
"""
SUMS_APART = """
static u64 warp_sum(u64 value) { return value; }
static u64 warp_max(u64 value) { return value; }
static u64 warp_prefix(u64 value) { return value; }
"""
SUMS_TOGETHER = """
static u64 warp_sum(u64 value) { return warp_reduce(value, false); }
static u64 warp_max(u64 value) { return warp_reduce(value, true); }
static u64 warp_prefix(u64 value) {
  u64 sum = 0;
  for (unsigned lane = 0; lane < WARP; ++lane) {
    u64 until = warp_reduce(threadIdx.x <= lane ? value : 0, false);
    if (threadIdx.x == lane) sum = until;
  }
  return sum;
}
"""
LANES_APART = """
#define WARP 1
static unsigned warp_ballot(bool yes) { return yes; }
static int bits_in(unsigned lanes) { return __builtin_popcount(lanes); }
static i64 warp_grab(u64* counter, i64 count) { return (i64)atomicAdd(counter, (u64)count); }
static int warp_choose(int point) { return point == IDLE ? -1 : point; }
"""
LANES_TOGETHER = """
#define WARP 4
static u64 warp_word;
static u64 warp_reduce(u64 value, bool largest) {
  __syncthreads();
  if (threadIdx.x == 0) warp_word = 0;
  __syncthreads();
  if (largest) atomicMax(&warp_word, value); else atomicAdd(&warp_word, value);
  __syncthreads();
  return warp_word;
}
static unsigned warp_ballot(bool yes) { return warp_reduce((u64)yes << threadIdx.x, false); }
static int bits_in(unsigned lanes) { return __builtin_popcount(lanes); }
static i64 warp_grab(u64* counter, i64 count) {
  return warp_reduce(threadIdx.x == 0 ? atomicAdd(counter, (u64)count) : 0, false);
}
static int warp_choose(int point) {
  return (int)warp_reduce(point == IDLE ? 0 : point + 1, true) - 1;
}
"""
TOGETHER = """
static unsigned long long words_of_all[BLOCK];
static unsigned lanes_arrived[BLOCK / WARP], meetings[BLOCK / WARP];
static unsigned long long* words() { return words_of_all + threadIdx.x / WARP * WARP; }
// All lanes of the warp, none of which may have ended.
static void warp_sync() {
  unsigned warp = threadIdx.x / WARP, now = meetings[warp];
  if (++lanes_arrived[warp] == WARP) {
    lanes_arrived[warp] = 0;
    ++meetings[warp];
    ++progress;
  }
  while (meetings[warp] == now) give_way();
}
static long long blocks_met;
extern "C" long long meetings_of_blocks() { return blocks_met; }
static void block_sync() {
  if (threadIdx.x == 0) ++blocks_met;
  __syncthreads();
}
// The word of each lane, for all lanes; in between, lanes run one after the other.
static void tell(unsigned long long word) {
  warp_sync();
  words()[threadIdx.x % WARP] = word;
  warp_sync();
}
static bool warp_all(bool yes) {
  tell(yes);
  for (unsigned lane = 0; lane < WARP; ++lane) yes = yes && words()[lane];
  return yes;
}
static bool warp_any(bool yes) { return !warp_all(!yes); }
static long long rounds;  // in which lanes have shared a loop over data
extern "C" long long rounds_so_far() { return rounds; }
static unsigned warp_add(unsigned word) {
  if (threadIdx.x % WARP == 0) ++rounds;
  tell(word);
  word = 0;
  for (unsigned lane = 0; lane < WARP; ++lane) word += words()[lane];
  return word;
}
static unsigned warp_max(unsigned word) {
  tell(word);
  for (unsigned lane = 0; lane < WARP; ++lane) word = words()[lane] > word ? words()[lane] : word;
  return word;
}
static unsigned warp_min(unsigned word) { return ~warp_max(~word); }
static unsigned warp_match(unsigned word) {
  tell(word);
  unsigned same = 0;
  for (unsigned lane = 0; lane < WARP; ++lane) same |= (unsigned)(words()[lane] == word) << lane;
  return same;
}
static double warp_word(double x, int lane) {
  tell(__double_as_longlong(x));
  return __longlong_as_double(words()[lane]);
}
static int first_of(unsigned lanes) { return __builtin_ctz(lanes); }
"""
LAUNCH = """
static std::function<void()> kernel_;
static void thread_main() {
  kernel_();
  ended[threadIdx.x] = true;
  --living;
  ++progress;
  go_on_together();
  give_way();
}
static bool stuck;  // all threads of a block wait for ever
extern "C" bool is_stuck() { return stuck; }
extern "C" void use_block(int threads) { blockDim.x = threads; }
static void run_block() {
  living = blockDim.x;
  arrived = 0;
  for (unsigned t = 0; t < blockDim.x; ++t) {
    stacks[t].resize(1 << 18);
    getcontext(&threads[t]);
    threads[t].uc_stack.ss_sp = stacks[t].data();
    threads[t].uc_stack.ss_size = stacks[t].size();
    makecontext(&threads[t], thread_main, 0);
    ended[t] = false;
  }
  for (bool all = false, forward = false; !all && !stuck;) {
    all = true;
    forward = !forward;  // lanes that should have met notice it in either order
    unsigned before = progress;
    for (unsigned k = 0; k < blockDim.x; ++k) {
      unsigned t = forward ? k : blockDim.x - 1 - k;
      if (ended[t]) continue;
      threadIdx.x = t;
      swapcontext(&caller, &threads[t]);
      all = all && ended[t];
    }
    stuck = progress == before;
  }
}
// All threads at the same time: for a kernel in which none waits for its block.
static void run_at_once(std::function<void()> kernel, int blocks) {
  gridDim.x = blocks;
  std::vector<std::thread> all;
  for (int b = 0; b < blocks; ++b)
    for (unsigned t = 0; t < BLOCK; ++t)
      all.emplace_back([=] {
        threadIdx.x = t;
        blockIdx.x = b;
        kernel();
      });
  for (std::thread& one : all) one.join();
}
static void run(std::function<void()> kernel, int blocks) {
  gridDim.x = blocks;
  kernel_ = kernel;
  for (int b = 0; b < blocks; ++b) {
    blockIdx.x = b;
    run_block();
  }
}
"""


TWO_ARGUMENTS = ("advance", "run_chains", "copy_share")
SHARES = ("weigh_share", "decide_share", "count_share", "copy_share", "turn_share")
AT_ONCE = ("move_heap",)


def compiled(source: str, names: Sequence[str], folder: Path) -> ctypes.CDLL:
    """A library with `launch_name` of each kernel."""
    for name in names:
        given = "c, a" if name in TWO_ARGUMENTS else "c"
        how = "run_at_once" if name in AT_ONCE else "run"
        source += (
            f'extern "C" void launch_{name}(int n, i64* c, i64 a) '
            f"{{ {how}([=] {{ {name}({given}); }}, n); }}\n"
        )
    stem = hashlib.sha256(source.encode()).hexdigest()[:16]
    library = folder / f"{stem}.so"
    if not library.exists():
        text = folder / f"{stem}.cpp"
        text.write_text(source)
        compiler = shutil.which("g++")
        assert compiler is not None
        subprocess.run(
            [compiler, "-std=c++17", "-O0", "-ffp-contract=off", "-fno-strict-aliasing", "-w",
             "-pthread", "-shared", "-fPIC", str(text), "-o", str(library)],
            check=True,
        )  # fmt: skip
    return ctypes.CDLL(str(library))


class HostDevice:
    """A `Device` on the CPU; small stacks, pools and heaps, so that the paths that grow them are taken."""

    block = BLOCK

    def __init__(
        self, lowered: Lowered, folder: Path, *, stack_words: int = 1, pool_words: int = 8,
        heap_words: int = 4, patience: int = 1 << 30, together: bool = False,
        shares: bool = False,
    ) -> None:  # fmt: skip
        self.stack_words, self.pool_words, self.heap_words = stack_words, pool_words, heap_words
        self.stack_bytes, self.patience = 0, patience
        self.warp = BLOCK if together else 1
        warps = LANES_TOGETHER if together else LANES_APART
        sums = SUMS_TOGETHER if together else SUMS_APART
        shim, warps = SHIM + warps.splitlines()[1] + "\n", "\n".join(warps.splitlines()[2:])
        source = cuda_source(lowered, shim, BLOCK, warps, sums, shares) + LAUNCH
        names = ["move_heap"]
        names += ["begin", "advance", "resample", "widen"] if lowered.machine else ["run_all"]
        names += SHARES if shares else ()
        self.library = compiled(source, names, folder)
        self.lowered = lowered
        self.suspend = True
        self.arrays: dict[int, npt.NDArray[np.int64]] = {}
        self.launched: list[str] = []

    def resident(self, kernel: str) -> int:
        return 1 if kernel == "resample" else 2  # blocks run one after the other

    def synchronize(self) -> None:
        """Nothing is pending."""

    use = mark = synchronize

    def wait(self, event: None) -> None:
        """Kernels have run when they have been launched."""

    def allocate(self, size: int) -> int:
        array = np.zeros(max(1, -(-size // 8)), dtype=np.int64)
        self.arrays[array.ctypes.data] = array
        return array.ctypes.data

    def free(self, address: int) -> None:
        del self.arrays[address]

    def host(self, words: int) -> npt.NDArray[np.int64]:
        return np.full(words, -1, dtype=np.int64)

    def write(self, address: int, data: npt.NDArray[Any], wait: bool = True) -> None:
        ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def read(self, address: int, data: npt.NDArray[Any]) -> None:
        ctypes.memmove(data.ctypes.data, address, data.nbytes)

    def move(self, target: int, source: int, size: int) -> None:
        ctypes.memmove(target, source, size)

    def launch(self, steps: Sequence[tuple[str, int, int]], control: int) -> None:
        for name, blocks, argument in steps:
            self.launched.append(name)
            function = getattr(self.library, f"launch_{name}")
            function(blocks, ctypes.c_void_p(control), ctypes.c_int64(argument))
            self.check()

    def check(self) -> None:
        """All threads have ended."""
        function = self.library.is_stuck
        function.restype = ctypes.c_bool
        assert not function(), "threads wait for each other"


class HostChains(HostDevice):
    """A device for chains, whose warps have three lanes with a chain and one without.

    With `lanes`, all lanes of a warp share a chain, and a block has so many warps.
    """

    warps = 1

    def __init__(
        self, lowered: Lowered, folder: Path, lanes: int = 0, warps_of_block: int = 1, most: int = 0
    ) -> None:
        self.warp = lanes or BLOCK
        self.block = warps_of_block * self.warp
        self.together = lanes > 0
        shim = SHIM + f"#define WARP {self.warp}\n"
        most = max(most * self.warp, self.block)
        source = chains_source(lowered, shim, most, TOGETHER if lanes else None) + LAUNCH
        self.library = compiled(source, ["run_chains"], folder)
        self.library.use_block(self.block)
        self.arrays: dict[int, npt.NDArray[np.int64]] = {}
        self.launched: list[str] = []

    @property
    def meetings(self) -> int:
        """How often the first lane of a block has met the other warps."""
        function = self.library.meetings_of_blocks
        function.restype = ctypes.c_longlong
        return function()

    @property
    def rounds(self) -> int:
        """How often the lanes of a warp have run turns of a loop over data."""
        function = self.library.rounds_so_far
        function.restype = ctypes.c_longlong
        return function()
