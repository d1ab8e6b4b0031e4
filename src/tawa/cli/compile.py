"""`tawa compile`: a kernel's stages, from the command line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tawa.base.errors import TawaError
from tawa.cli.arguments import argument_type, assignments, constant, option_values
from tawa.cli.kernel_file import OR_GIVE_TYPES, FoundKernel, find_kernel

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled
    from tawa.driver.request import Request

EMIT = {"cuda": "cu"}
"""Names of stages on the command line that are not their file extension."""


class ArgumentsMissing(TawaError):
    """The command line gives some of a kernel's arguments, but not all, and there is no example."""

    explanation = (
        "Every parameter without a default needs `--arg NAME=TYPE`, or `--const NAME=VALUE` if it "
        "is constexpr. None of them is needed if the kernel's file has a function "
        "`example_NAME()` that launches it."
    )
    example = """
from pathlib import Path

from tawa.cli.compile import CompileCommand

Path("kernels.py").write_text("import tawa\\n@tawa.jit\\ndef scale(x, factor): pass\\n")
CompileCommand("kernels.py:scale", types=["x=ptr:f32"]).request()
"""


class UnknownParameter(TawaError):
    """The command line gives a type or a value to a parameter that the kernel doesn't have.

    Also raised for a type given to a constexpr parameter, which takes a value.
    """

    explanation = (
        "`--arg` names the kernel's run-time parameters, `--const` its constexpr parameters or "
        "run-time parameters whose value is to be compiled in."
    )
    example = """
from pathlib import Path

from tawa.cli.compile import CompileCommand

Path("kernels.py").write_text("import tawa\\n@tawa.jit\\ndef scale(x): pass\\n")
CompileCommand("kernels.py:scale", types=["y=ptr:f32"]).request()
"""


class NotAStageFile(TawaError):
    """The file given to `--start` or `--override` is not named after a stage."""

    explanation = (
        "A stage's file has the stage's extension: `.tile`, `.aref`, `.hopper` or `.cu`, as "
        "`--dump` writes them."
    )
    example = """
from tawa.cli.compile import stage_file

stage_file("gemm.txt")
"""


class BinaryOutput(TawaError):
    """Machine code was asked for on the terminal."""

    explanation = "A cubin is binary: name a file with `-o`, or look at it with `--emit sass`."
    example = """
from tawa.cli.compile import write_output

write_output(b"machine code", None, terminal=True)
"""


@dataclass
class CompileCommand:
    """What the command line asks for: a kernel, and changes to what its example launches."""

    where: str
    types: list[str] = field(default_factory=list[str])
    constants: list[str] = field(default_factory=list[str])
    options: list[str] = field(default_factory=list[str])

    def request(self) -> Request:
        """What to compile."""
        return self.found.kernel.request(**self._arguments())

    def compile(
        self,
        start: str | None = None,
        override: list[str] | None = None,
        dump: Path | None = None,
    ) -> Compiled:
        """Compile, perhaps from a stage's file, with stages replaced by files, dumping all.

        A compilation that takes long shows that it runs.
        """
        from tawa.driver.compiler import compile_kernel
        from tawa.driver.progress import progress

        request = self.request()
        with progress(f"compiling {self.found.name}") as report:
            return compile_kernel(
                self.found.kernel,
                request.types,
                request.constants,
                request.options,
                start=None if start is None else stage_file(start),
                override=dict(stage_file(file) for file in override or []),
                dump_dir=dump,
                report=report,
            )

    def __post_init__(self) -> None:
        self.found: FoundKernel = find_kernel(self.where)

    def changes(self) -> dict[str, Any]:
        """What the command line gives in place of the example's: constants and options."""
        return {**self._given(), **option_values(assignments("--option", self.options))}

    def _arguments(self) -> dict[str, Any]:
        """The kernel's arguments by name, and launch options."""
        given = self._given()
        options = option_values(assignments("--option", self.options))
        parameters = self.found.kernel.parameters
        missing = [p.name for p in parameters if p.name not in given and not p.has_default]
        if not missing:
            return {**given, **options}
        if given and not self.found.has_example:
            raise ArgumentsMissing(
                f"arguments of `{self.found.name}` are missing",
                expected=f"--arg or --const for {', '.join(missing)}",
                found=f"only {', '.join(given)}",
            )
        record = self.found.recorded_launch(OR_GIVE_TYPES)
        return {**record.named(self.found.kernel), **given, **options}

    def _given(self) -> dict[str, Any]:
        types = assignments("--arg", self.types)
        constants = assignments("--const", self.constants)
        own = {p.name: p.is_constexpr for p in self.found.kernel.parameters}
        for name in (*types, *constants):
            if name not in own or (name in types and own[name]):
                raise UnknownParameter(
                    f"`{self.found.name}` has no run-time parameter `{name}`"
                    if name in types
                    else f"`{self.found.name}` has no parameter `{name}`",
                    expected=f"one of {', '.join(own)}",
                    hint=f"it is constexpr: --const {name}=VALUE" if name in own else None,
                )
        given: dict[str, Any] = {n: argument_type(n, text) for n, text in types.items()}
        return {**given, **{n: constant(n, text) for n, text in constants.items()}}


def stage_file(file: str) -> tuple[str, str]:
    """The stage that a file holds, by its extension, and its text."""
    path = Path(file)
    stage = path.suffix.removeprefix(".")
    if stage not in ("tile", "aref", "hopper", "cu") or not path.is_file():
        raise NotAStageFile(
            f"{file} is not the file of a stage",
            expected="an existing file that ends in .tile, .aref, .hopper or .cu",
        )
    return stage, path.read_text()


def stage_of(compiled: Compiled, name: str) -> str | bytes:
    """The text or the machine code of the stage that the command line calls `name`."""
    return compiled.sass if name == "sass" else compiled.stages[EMIT.get(name, name)]


def write_output(content: str | bytes, output: Path | None, *, terminal: bool) -> None:
    """Write to a file, or else to standard output. Raises `BinaryOutput`."""
    data = content.encode() if isinstance(content, str) else content
    if output is not None:
        output.write_bytes(data)
        return
    if terminal and isinstance(content, bytes):
        raise BinaryOutput("machine code can't be shown on a terminal", hint="name a file with -o")
    sys.stdout.buffer.write(
        data if data.endswith(b"\n") or isinstance(content, bytes) else data + b"\n"
    )
    sys.stdout.buffer.flush()


def stage_table(stages: Mapping[str, str | bytes], seconds: Mapping[str, float]) -> list[str]:
    """One line a stage: its name, its size, and how long it took to make."""
    lines: list[str] = []
    for stage, content in stages.items():
        size = f"{len(content.splitlines())} lines" if isinstance(content, str) else ""
        size = size or f"{len(content):,} bytes"
        took = f"{seconds[stage] * 1e3:7.1f} ms" if stage in seconds else ""
        lines.append(f"  {stage:<8}{size:>14}{took:>14}".rstrip())
    if not seconds:
        lines.append("  (from the cache of compiled kernels)")
    return lines
