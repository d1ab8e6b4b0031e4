"""The CUDA text compiled as plain C++ and run on the CPU, one block after the other.

The threads of a block are threads of the operating system, so that `__syncthreads` is a barrier.
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

from tawa.cuppl.gpu.source import cuda_source
from tawa.cuppl.lowering.pipeline import Lowered

BLOCK = 4
SHIM = """
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <thread>
#include <vector>
#define DEVICE static
#define OUTLINE static
#define INLINE static inline
#define KERNEL static
#define SHARED static
#define TABLE static const
struct Index { unsigned x; };
static thread_local Index threadIdx, blockIdx;
static Index gridDim;
static pthread_barrier_t block_barrier;
static inline void __syncthreads() { pthread_barrier_wait(&block_barrier); }
template <class T> T atomicAdd(T* p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
template <class T> T atomicOr(T* p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); }
template <class T> T atomicMax(T* p, T v) {
  T old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
  while (old < v && !__atomic_compare_exchange_n(p, &old, v, false, 5, 5)) {}
  return old;
}
static inline long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
static inline double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
"""
LAUNCH = """
typedef void (*Kernel)(i64*);
static void run(Kernel kernel, int blocks, i64* control) {
  gridDim.x = blocks;
  pthread_barrier_init(&block_barrier, nullptr, BLOCK);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < BLOCK; ++t)
    threads.emplace_back([=] {
      threadIdx.x = t;
      for (int b = 0; b < blocks; ++b) {
        blockIdx.x = b;
        kernel(control);
        __syncthreads();
      }
    });
  for (auto& thread : threads) thread.join();
  pthread_barrier_destroy(&block_barrier);
}
"""


class HostDevice:
    """A `Device` on the CPU."""

    block = BLOCK

    def __init__(self, lowered: Lowered, folder: Path) -> None:
        source = cuda_source(lowered, SHIM, BLOCK) + LAUNCH
        names = ["weigh", "decide", "count_children", "copy_states", "turn", "move_heap"]
        names += ["advance", "advance_deep"] if lowered.machine else ["run_all"]
        for name in names:
            source += f'extern "C" void launch_{name}(int n, i64* c) {{ run({name}, n, c); }}\n'
        stem = hashlib.sha256(source.encode()).hexdigest()[:16]
        library = folder / f"{stem}.so"
        if not library.exists():
            text = folder / f"{stem}.cpp"
            text.write_text(source)
            compiler = shutil.which("g++")
            assert compiler is not None
            subprocess.run(
                [compiler, "-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-w",
                 "-shared", "-fPIC", "-pthread", str(text), "-o", str(library)],
                check=True,
            )  # fmt: skip
        self.library = ctypes.CDLL(str(library))
        self.lowered = lowered
        self.suspend = True
        self.arrays: dict[int, npt.NDArray[np.int64]] = {}

    def allocate(self, size: int) -> int:
        array = np.zeros(max(1, -(-size // 8)), dtype=np.int64)
        self.arrays[array.ctypes.data] = array
        return array.ctypes.data

    def free(self, address: int) -> None:
        del self.arrays[address]

    def write(self, address: int, data: npt.NDArray[Any]) -> None:
        ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def read(self, address: int, data: npt.NDArray[Any]) -> None:
        ctypes.memmove(data.ctypes.data, address, data.nbytes)

    def move(self, target: int, source: int, size: int) -> None:
        ctypes.memmove(target, source, size)

    def launch(self, steps: Sequence[tuple[str, int]], control: int) -> None:
        for name, blocks in steps:
            getattr(self.library, f"launch_{name}")(blocks, ctypes.c_void_p(control))
