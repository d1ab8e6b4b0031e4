"""The machine code of the kernels of `same_source.py` under Triton and under Tawa, without a GPU.

    python benchmarks/machine_code.py [--only gla,softmax] [--configuration 1] [--sass FOLDER]

Each launch is compiled by both with the same constants and options. A line a compiler: warps,
registers, shared memory, CTAs of a multiprocessor, spills, and what the loop that matters is made
of. Nothing is timed; the last column is Tawa's timing model.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import no_device
import same_source_case
from recorded_launches import Launch, recording

from tawa.machine.chips import H100
from tawa.runtime.sass import Instruction, SassFunction, disassemble, sass_text

WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
"""Bytes of an access of a thread by its suffix; without one, 4."""

SHOWN = {
    "HGMMA": ("HGMMA", "IGMMA", "QGMMA"),
    "HMMA": ("HMMA", "IMMA"),
    "TMA": ("UTMALDG", "UBLKCP"),
    "LDGSTS": ("LDGSTS",),
    "LDS": ("LDS", "LDSM"),
    "STS": ("STS", "STSM"),
    "SHFL": ("SHFL",),
    "MUFU": ("MUFU",),
    "BAR": ("BAR",),
}
"""Columns of counts, and the opcodes that each adds up."""


@dataclass(frozen=True)
class Code:
    """What is said of one compiler's machine code of a kernel."""

    impl: str
    threads: int
    registers: int
    shared: int
    ctas: int
    spills: int
    whole: tuple[Instruction, ...]
    loop: tuple[Instruction, ...]
    microseconds: float | None = None
    remarks: list[str] = field(default_factory=list[str])

    def cells(self) -> list[str]:
        """A row of the table: numbers of the loop, or of all where there is none."""
        of = self.loop or self.whole
        counts = [str(_count(of, names) or "") for names in SHOWN.values()]
        time = "" if self.microseconds is None else f"{self.microseconds:.1f}"
        return [
            self.impl, str(self.threads // 32), str(self.registers), f"{self.shared / 1024:.0f}",
            str(self.ctas), str(self.spills or ""), str(len(self.whole)), str(len(self.loop) or ""),
            *counts, _widths(of, "LDG"), _widths(of, "STG"), time,
        ]  # fmt: skip


WAITING = 12
"""Instructions of a loop that waits for a barrier, at most."""

HEADER = ["", "warps", "regs", "KiB", "CTAs", "spill", "all", "loop", *SHOWN, "LDG", "STG", "us"]


def _count(of: Sequence[Instruction], names: Sequence[str]) -> int:
    return sum(any(i.is_a(name) for name in names) for i in of)


def _widths(of: Sequence[Instruction], name: str) -> str:
    """`4x16 2x4`: four accesses of 16 bytes and two of 4."""
    found: Counter[int] = Counter()
    for instruction in of:
        if instruction.is_a(name):
            parts = instruction.opcode.split(".")
            found[next((WIDTHS[p] for p in parts if p in WIDTHS), 4)] += 1
    return " ".join(f"{n}x{width}" for width, n in sorted(found.items(), reverse=True))


def hot_loop(function: SassFunction) -> tuple[Instruction, ...]:
    """The loop that matters: of those without a loop inside, that with most products, else longest.

    Loops that wait for a barrier are none: they are a few instructions.
    """
    loops = [loop for loop in function.loops if len(loop.body) > WAITING]
    bodies = {loop.header: {i.address for i in loop.body} for loop in loops}
    innermost = [
        loop.body
        for loop in loops
        if not any(h in bodies[loop.header] and h != loop.header for h in bodies)
    ]

    def weight(body: tuple[Instruction, ...]) -> tuple[int, int]:
        return 16 * _count(body, SHOWN["HGMMA"]) + _count(body, SHOWN["HMMA"]), len(body)

    return max(innermost, key=weight, default=())


def usage(cubin: bytes) -> tuple[int, int]:
    """Registers and bytes of static shared memory, as the machine code says."""
    import tempfile

    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True,
                              check=True).stdout  # fmt: skip
    found = re.search(r"REG:(\d+).*?SHARED:(\d+)", text)
    assert found is not None, text
    return int(found[1]), int(found[2])


def resident(threads: int, registers: int, shared: int) -> int:
    """CTAs that a multiprocessor holds."""
    step = H100.register_step
    rounded = -(-registers // step) * step
    return min(H100.registers // (rounded * threads), H100.ctas_with(shared),
               H100.threads // threads, H100.ctas)  # fmt: skip


def code_of(impl: str, cubin: bytes, threads: int, shared: int, **more: Any) -> Code:
    """What machine code is made of."""
    functions = list(disassemble(cubin).values())
    function = max(functions, key=lambda f: len(f.instructions))
    registers, static = usage(cubin)
    shared = shared or static
    spills = function.count("LDL") + function.count("STL")
    return Code(impl, threads, registers, shared, resident(threads, registers, shared), spills,
                function.instructions, hot_loop(function), **more)  # fmt: skip


def by_triton(launch: Launch) -> tuple[Code, bytes]:
    """A launch's machine code under Triton."""
    found = launch.function.warmup(*launch.args, grid=launch.sizes(), **launch.kwargs)
    meta, cubin = found.metadata, found.asm["cubin"]
    return code_of("triton", cubin, 32 * meta.num_warps, meta.shared), cubin


def by_tawa(launch: Launch) -> tuple[Code, bytes]:
    """The same under Tawa, with the options that a launch of these sizes chooses."""
    from tawa.triton.takeover import Adopted

    kernel = Adopted(launch.function).kernel
    request, named = kernel.request(*launch.args, **launch.kwargs), launch.named()
    compiled = kernel._suited(request, named, launch.kwargs, launch.sizes())
    spec, cubin = compiled.spec, compiled.stages["cubin"]
    try:
        found = kernel.predict(*launch.args, grid=launch.sizes(), **launch.kwargs)
        seconds, remarks = found.seconds * 1e6, [found.render()]
    except Exception as error:
        seconds, remarks = None, [f"not predicted: {error}"]
    remarks += compiled.explain.splitlines()
    code = code_of("tawa", cubin, spec.threads, spec.shared_bytes, microseconds=seconds,
                   remarks=remarks)  # fmt: skip
    return code, cubin


def compare(name: str, launch: Launch, folder: Path | None, explain: bool) -> None:
    """Print both compilers' rows of a launch."""
    constants = {k: v for k, v in launch.kwargs.items() if isinstance(v, (int, float, str))}
    print(f"\n{name}: {launch.name} {launch.sizes()} {constants}", flush=True)
    rows = [HEADER]
    remarks: list[str] = []
    for make in (by_triton, by_tawa):
        try:
            code, cubin = make(launch)
        except Exception as error:  # a compiler may raise anything
            print(f"  {make.__name__}: {type(error).__name__}: {str(error)[:600]}")
            if explain:
                traceback.print_exc()
            continue
        rows.append(code.cells())
        remarks += code.remarks
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.{launch.name}.{code.impl}.sass").write_text(sass_text(cubin))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        print("  " + "  ".join(c.rjust(w) for c, w in cells), flush=True)
    if explain:
        print("\n".join(f"    {line}" for line in remarks))


def launches_of(case: Any, configuration: int) -> list[Launch]:
    """What a case would launch under Triton."""
    from same_source_case import compiled_by, descriptors_of

    def op() -> None:
        if case.op is not None:
            case.op()
            return
        config = case.configurations[configuration % len(case.configurations)]
        case.launch(compiled_by("triton", case.function), descriptors_of("triton"), config)()

    with recording(configuration) as launches:
        op()
    return launches


def look(name: str, make: Any, seen: set[tuple[str, str]], options: argparse.Namespace) -> None:
    """Compare the kernels of one case."""
    try:
        launches = launches_of(make(), options.configuration)
    except Exception as error:
        print(f"\n{name}: {type(error).__name__}: {error}", file=sys.stderr)
        return
    for launch in launches:
        wanted = any(word in launch.name for word in options.kernels.split(","))
        if wanted and (options.all_sizes or (name, launch.name) not in seen):
            seen.add((name, launch.name))
            compare(name, launch, options.sass, options.explain)


def main() -> None:
    """Compile, and print a table for each kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="parts of operators' names, comma separated")
    parser.add_argument("--kernels", default="", help="parts of kernels' names, comma separated")
    parser.add_argument("--configuration", type=int, default=0, help="of a tuned kernel, by number")
    parser.add_argument("--all-sizes", action="store_true", help="not the first size alone")
    parser.add_argument("--sass", type=Path, help="write the machine code into this folder")
    parser.add_argument("--explain", action="store_true", help="print Tawa's remarks")
    options = parser.parse_args()
    no_device.pretend()
    same_source_case.DEVICE, same_source_case.CONTENTS = "cpu", False
    import same_source

    seen: set[tuple[str, str]] = set()
    for make in same_source.chosen(options.only):
        name = make.func.__name__
        if options.all_sizes or not any(name == known for known, _ in seen):
            look(name, make, seen, options)


if __name__ == "__main__":
    main()
