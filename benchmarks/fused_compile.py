"""Compiles what `fused.py` measures, in processes: Tawa's and Triton's configurations."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from fused_cases import Case, cases

Place = tuple[str, int, int]
"""A contender, the number of a case among all, and that of one of its configurations."""


def compile_all(chosen: list[Case], *peers: str) -> None:
    """Compile all configurations of some of the cases into the caches.

    `peers` are modules with Triton's kernels. Call it before anything in this process uses CUDA.
    What fails here fails again, and gets its row, where it is checked.
    """
    first: dict[str, Case] = {}
    for case in chosen:
        first.setdefault(case.name, case)
    # Other sizes of a kernel mostly need nothing more.
    rest = [case for case in chosen if case not in first.values()]
    with ProcessPoolExecutor() as pool:
        for part in (list(first.values()), rest):
            list(pool.map(_compile_one, _places(part, peers)))


def _places(chosen: list[Case], peers: tuple[str, ...]) -> list[Place]:
    found: list[Place] = []
    for number, case in enumerate(cases()):
        if case in chosen:
            found += [("tawa", number, i) for i in range(len(case.configurations))]
            for peer in peers:
                found += [(peer, number, i) for i, _ in enumerate(triton_works(peer, case))]
    return found


def _compile_one(place: Place) -> None:
    impl, number, configuration = place
    case = cases()[number]
    try:
        if impl == "tawa":
            compilations(case)[configuration][1]()
        else:
            _compile_triton(list(triton_works(impl, case))[configuration][1])
    except Exception as error:  # a peer's compiler may raise anything
        text = f"{type(error).__name__}: {error}"
        print(f"  {impl} {case.name} {configuration}: {text}"[:300], flush=True)


def triton_works(peer: str, case: Case) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A module's configurations of a case, on arrays of the host."""
    import torch

    arrays = [torch.from_numpy(array) for array in host_arrays(case).values()]
    return getattr(importlib.import_module(peer), f"{case.name}_works")(*arrays)


def _compile_triton(work: Callable[[], Any]) -> None:
    """Do what a launch does up to the launch itself."""
    from triton.runtime.jit import JITFunction

    run: Any = JITFunction.run

    def compile_only(self: Any, *args: Any, warmup: bool, **kwargs: Any) -> Any:
        return run(self, *args, warmup=True, **kwargs)

    JITFunction.run = compile_only
    try:
        work()
    finally:
        JITFunction.run = run


def compilations(case: Case) -> list[tuple[str, Callable[[], tuple[str, ...]]]]:
    """What compiles each of Tawa's configurations, and gives the assembler's findings."""
    from tawa.driver.jit import Kernel

    asked: list[Callable[[], tuple[str, ...]]] = []

    def record(self: Kernel, grid: Any, /, *args: Any, **kwargs: Any) -> None:
        asked.append(lambda: self.compile(*args, **kwargs).findings)

    launches, launch = list(case.launches(host_arrays(case))), Kernel._launch
    Kernel._launch = record  # pyright: ignore
    try:
        for _, work in launches:
            work()
    finally:
        Kernel._launch = launch  # pyright: ignore
    return [(name, work) for (name, _), work in zip(launches, asked, strict=True)]


def host_arrays(case: Case) -> dict[str, Any]:
    """Arrays of the case's sizes, which nothing reads."""
    shapes = {**case.inputs, **case.outputs}
    return {n: np.empty(s, np.float32 if len(s) == 1 else np.float16) for n, s in shapes.items()}


def dry_run(case: Case) -> int:
    """Compile every configuration of Tawa's; returns how many spill or serialise products."""
    bad = 0
    for name, work in compilations(case):
        start = time.process_time()
        findings = work()
        seconds = time.process_time() - start
        print(f"{case.name:18} {name:60} {seconds:5.1f} s {findings}", flush=True)
        bad += bool(findings)
    return bad
