"""Hashes of what the library's, the examples' and the suite's kernels compile to.

    python scripts/hash_kernels.py FILE                 write a hash of each kernel's stages
    python scripts/hash_kernels.py FILE --against OLD   and say which differ from an older file
    python scripts/hash_kernels.py FILE --blind --against OLD   and print no IR and no remark
    python scripts/hash_kernels.py FILE --texts         CUDA C++ alone: nothing is assembled

A change that should change no kernel proves it with this; one that should change a few shows which.
No device is needed; `TAWA_SOURCE` names another checkout to compile with. FILE is JSON: a kernel's
name to the hashes of its CUDA C++ and its cubin.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(os.environ.get("TAWA_SOURCE", ROOT))
sys.path[:0] = [str(SOURCE / part) for part in ("src", "tests/workloads", "examples")]

Compile = Callable[[], Any]
FOR_GOOD = ExitStack()
"""What is changed in a process that compiles."""


def workloads() -> Iterator[tuple[str, Compile]]:
    """Every example at small and large sizes."""
    from catalogue import ON_DEVICE
    from simulation import recorded

    for name, workload in ON_DEVICE.items():
        yield f"example {name}", lambda w=workload: recorded(w)[0].compile()


def suite() -> Iterator[tuple[str, Compile]]:
    """Kernels as public collections have them."""
    from simulation import Arrays, Recorded
    from suite import cases

    def compile_case(make: Any) -> Any:
        launch = make(Arrays())
        asked = Recorded(launch.kernel, launch.grid, tuple(launch.args), dict(launch.constants))
        return asked.compile()

    for name, make in cases().items():
        yield f"suite {name}", lambda m=make: compile_case(m)


def attention() -> Iterator[tuple[str, Compile]]:
    """The library's attention at the benchmark's shapes."""
    import ml_dtypes
    import numpy as np
    from simulation import recording

    from tawa.kernels.attention import attention as library

    def compile_case(rows: int, d: int, causal: bool) -> Any:
        shape = (max(1, 16384 // rows), 2048 // d, rows, d)
        arrays = [np.empty(shape, ml_dtypes.bfloat16) for _ in range(3)]
        with recording() as launches:
            library(*arrays, causal=causal)
        first = launches[0]
        return first.kernel.compile(*first.args, **first.kwargs)

    for d in (64, 128, 256):
        for causal in (False, True):
            for rows in (512, 1024, 2048, 4096, 8192, 16384):
                name = f"attention D={d} {'causal' if causal else 'full'} {rows}"
                yield name, lambda r=rows, d=d, c=causal: compile_case(r, d, c)


def products() -> Iterator[tuple[str, Compile]]:
    """The library's GEMM: a sweep of K, and layers."""
    import numpy as np
    from simulation import recording

    from tawa.kernels.gemm import matmul

    def compile_case(m: int, n: int, k: int) -> Any:
        a, b = np.empty((m, k), np.float16), np.empty((n, k), np.float16).T
        with recording() as launches:
            matmul(a, b, out=np.empty((m, n), np.float16))
        first = launches[0]
        return first.kernel.compile(*first.args, **first.kwargs)

    sweep = [(8192, 8192, 2**e) for e in range(8, 15)]
    layers = [(16, 4096, 4096), (256, 7168, 2048), (2048, 7168, 18432), (1000, 1000, 1000)]
    for m, n, k in sweep + layers:
        yield f"gemm {m}x{n}x{k}", lambda m=m, n=n, k=k: compile_case(m, n, k)


GROUPS = (workloads, suite, attention, products)


def hashed(text: str | bytes) -> str:
    """A short hash."""
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()[:16]


class Text(Exception):
    """Ends the compilation of a kernel with the text that would be assembled."""


@contextmanager
def without_assembler() -> Generator[None]:
    """What is compiled inside ends with `Text`."""

    def end(text: str, *_given: Any, **_more: Any) -> Any:
        raise Text(text)

    for root in ("driver.compilation", "driver.compiler", "compiler", "runtime.assemble"):
        with suppress(ImportError):  # an older checkout has another of them
            import_module(f"tawa.{root}")
    with ExitStack() as changed:
        for name, module in list(sys.modules.items()):
            if name.startswith("tawa.") and hasattr(module, "compile_cuda"):
                changed.enter_context(patch.object(module, "compile_cuda", end))
        yield


def one(place: tuple[str, str]) -> tuple[str, list[str]]:
    """Compile one kernel, by its group and name."""
    group, name = place
    compiled = {f.__name__: dict(f()) for f in GROUPS if f.__name__ == group}[group][name]
    try:
        found = compiled()
    except Text as text:
        return name, [hashed(str(text)), ""]
    except Exception as error:  # what does not compile does not compile in the same way
        return name, [type(error).__name__, ""]
    return name, [hashed(found.stages["cu"]), hashed(found.stages["cubin"])]


def blind() -> None:
    """Let nothing in this process choose by what is printed."""
    from blinded import blinded

    FOR_GOOD.enter_context(blinded())


def prepare(is_blind: bool, texts: bool) -> None:
    """Change a process before it compiles."""
    if is_blind:
        blind()
    if texts:
        FOR_GOOD.enter_context(without_assembler())


def main() -> int:
    """Hash all kernels; 1 if some differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--named", type=Path, help="JSON: a list of whole names, or null")
    parser.add_argument("--blind", action="store_true", help="refuse to print anything")
    parser.add_argument("--texts", action="store_true", help="assemble nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    chosen = parser.parse_args()
    named = json.loads(chosen.named.read_text()) if chosen.named else None
    places = [
        (f.__name__, name)
        for f in GROUPS
        for name, _ in f()
        if chosen.only in name and (named is None or name in named)
    ]
    with tempfile.TemporaryDirectory(prefix="tawa-cache-") as cache:
        os.environ["TAWA_CACHE_DIR"] = cache
        changes = (chosen.blind, chosen.texts)
        with ProcessPoolExecutor(chosen.jobs, initializer=prepare, initargs=changes) as pool:
            found: dict[str, list[str]] = {}
            for number, (name, hashes) in enumerate(pool.map(one, places), 1):
                found[name] = hashes
                print(f"\r{number}/{len(places)} {name:60.60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    chosen.file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    if not chosen.against:
        return 0
    old = json.loads(chosen.against.read_text())
    changed = [n for n in found if n in old and found[n] != old[n]]
    print(f"{len(found) - len(changed)} of {len(found)} the same")
    for name in changed:
        print(
            f"{name}: {'text' if found[name][0] != old[name][0] else 'machine code alone'} differs"
        )
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
