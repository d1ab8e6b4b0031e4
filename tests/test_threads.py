"""Threads and forks: kernels that are compiled, launched and tuned at the same time."""

from __future__ import annotations

import linecache
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.base.locks import COMPILING, ForkedLock
from tawa.driver.progress import progress

SECONDS = 240
"""More than any of these takes on a busy machine."""


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path / "cache"))


def at_once(*works: Callable[[], object]) -> None:
    """Run functions in threads that start together; raises what the first failing one raises."""
    ready = threading.Barrier(len(works))
    errors: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            ready.wait(SECONDS)
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
    if errors:
        raise errors[0]


ATTENTION = """
def attend_{n}(q_desc, k_desc, v_desc, o_desc, S, scale, D: tl.constexpr, BM: tl.constexpr,
               BN: tl.constexpr):
    start = tl.program_id(0) * BM
    q = q_desc.load([start, 0])
    m = tl.full((BM,), -float("inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for n in range(0, S, BN):
        s = tl.dot(q, k_desc.load([n, 0]).T)
        new = tl.maximum(m, tl.max(s, axis=1))
        alpha = tl.exp2((m - new) * scale)
        p = tl.exp2(s * scale - (new * scale)[:, None])
        l = l * alpha + tl.sum(p, axis=1) + {n}
        acc = tl.dot(p.to(tl.float16), v_desc.load([n, 0]), acc * alpha[:, None])
        m = new
    o_desc.store([start, 0], (acc / l[:, None]).to(tl.float16))
"""


def attention(n: int) -> Any:
    """Kernels of the same loop, which share the search for its schedule."""
    text, file = ATTENTION.format(n=n), f"<attention {n}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"tl": tl}
    exec(compile(text, file, "exec"), names)
    return tawa.jit(names[f"attend_{n}"])


def test_kernels_of_the_same_loop_at_once() -> None:
    tile, other = "desc<f16,128x64>", "desc<f16,128x64>"
    kernels = [attention(n) for n in range(4)]
    found: dict[int, Any] = {}

    def compile_(n: int) -> None:
        found[n] = kernels[n].compile(tile, other, other, tile, "i32", "f32", 64, 128, 128)

    at_once(*(lambda n=n: compile_(n) for n in range(4)))
    texts = {found[n].stages["cu"].replace(f"attend_{n}", "attend") for n in range(4)}
    assert len(found) == 4
    assert len(texts) > 1, "the kernels differ in a constant"
    alone = attention(1).compile(tile, other, other, tile, "i32", "f32", 64, 128, 128)
    assert alone.stages["cu"] == found[1].stages["cu"]


@tawa.jit
def triple(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 3, mask=i < n)


def test_many_threads_launch_the_same_kernel_and_others() -> None:
    x = np.arange(1000, dtype=np.float32)

    def launch(block: int) -> None:
        for _ in range(3):
            y = np.zeros(1000, np.float32)
            triple[(tawa.cdiv(1000, block),)](x, y, 1000, B=block)
            np.testing.assert_array_equal(y, 3 * x)

    at_once(*(lambda b=32 << n % 4: launch(b) for n in range(12)))
    assert len(triple._compiled) == 4, "each was compiled once"


N = tl.constexpr(0)


@tawa.jit
def store_n(o):
    tl.store(o, N)


def test_a_global_that_changes_while_others_launch() -> None:
    global N
    stop = threading.Event()
    seen: set[int] = set()

    def launch() -> None:
        while not stop.is_set():
            o = np.full(1, -1, np.int32)
            store_n[(1,)](o)
            seen.add(int(o[0]))

    def change() -> None:
        global N
        try:
            for value in (0, 1, 2, 1, 0):
                N = tl.constexpr(value)
                time.sleep(0.3)
        finally:
            stop.set()

    at_once(launch, launch, change)
    assert seen <= {0, 1, 2}
    o = np.full(1, -1, np.int32)
    store_n[(1,)](o)
    assert o[0] == 0
    N = tl.constexpr(0)


def test_threads_tune_one_at_a_time() -> None:
    running, most = 0, 0

    def bench(work: Callable[[], object], quantiles: Any) -> tuple[float, ...]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.05)
        work()
        running -= 1
        return 1.0, 1.0, 1.0

    configs = [tawa.Config({"B": 128}), tawa.Config({"B": 256})]
    tuned = tawa.autotune(configs, key=["n"], do_bench=bench)(triple)
    x = np.arange(1000, dtype=np.float32)

    def launch() -> None:
        y = np.zeros(1000, np.float32)
        tuned[lambda meta: (tawa.cdiv(1000, meta["B"]),)](x, y, 1000)
        np.testing.assert_array_equal(y, 3 * x)

    at_once(*[launch] * 6)
    assert most == 1
    assert [len(times) for times in tuned.timings.values()] == [2]


def test_progress_of_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("tawa.driver.progress.PROGRESS_SECONDS", 0.01)
    problems: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda found: problems.append(found.exc_value))

    def show() -> None:
        for _ in range(5):
            with progress("one") as report, progress("another"):
                report("a step")
                time.sleep(0.02)

    at_once(*[show] * 4)
    assert problems == []


FORK = """
import os, signal, sys, threading, time
import numpy as np, tawa, tawa.language as tl

@tawa.jit
def slow(a, b, c, W: tl.constexpr):
    i = tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 128)[None, :]
    acc = tl.zeros((128, 128), tl.float32)
    for k in range(4):
        acc = tl.dot(tl.load(a + i), tl.load(b + i), acc)
    tl.store(c + i, tl.exp(acc) + W)

h, c = np.zeros((128, 128), np.float16), np.zeros((128, 128), np.float32)
first = threading.Thread(target=lambda: [slow.compile(h, h, c, w, num_stages=2) for w in range(3)])
first.start()
children = []
for n in range(3):
    time.sleep(0.3)
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        slow[(1,)](h, h, c, 7 + n, num_stages=2)
        os._exit(0 if (c == 8 + n).all() else 1)
    children.append(child)
first.join()
print([os.waitpid(child, 0)[1] for child in children])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_during_a_compilation(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(FORK)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.stdout == "[0, 0, 0]\n", (done.stdout, done.stderr)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_locks_are_free_in_a_forked_process() -> None:
    lock = ForkedLock()
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            go.wait(SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(SECONDS)
    with COMPILING:  # the thread that forks may hold it itself
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            with lock, COMPILING:
                os._exit(0)
    go.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
