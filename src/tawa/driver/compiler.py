"""From a kernel to its machine code; each stage can be dumped, replaced, started from.

    Python source -> tile -> aref -> hopper -> cu -> cubin

Compiling touches no device and reads nothing but its arguments; they are the cache key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from tawa.base.kernel_spec import KernelSpec
from tawa.base.locks import one_at_a_time
from tawa.base.options import Options
from tawa.driver import compile_cache as kept
from tawa.driver.attempts import Attempts, Divided
from tawa.driver.compilation import Built, Compilation, silent
from tawa.driver.compiled import Compiled, StageNotReadable, read_module, spec_of
from tawa.driver.neighbours import at_first, beside
from tawa.driver.reassembling import reassembled
from tawa.driver.recording import require_no_text
from tawa.frontend import JITFunction, lower_to_tile, parse_argument, require_whole_rows
from tawa.frontend.values.builder import Defaults
from tawa.hopper.emit import SPEC_LINE
from tawa.hopper.recording.instrument import Instrument, disturbed
from tawa.ir.decisions.assembling import Assembled
from tawa.ir.decisions.decision import Decisions
from tawa.ir.instances import ask_bases

ask_bases()


@one_at_a_time
def compile_kernel(
    fn: JITFunction,
    signature: Mapping[str, str],
    constexprs: Mapping[str, object],
    options: Options,
    *,
    start: tuple[str, str] | None = None,
    override: Mapping[str, str] | None = None,
    dump_dir: Path | None = None,
    report: Callable[[str], None] = silent,
) -> Compiled:
    """Compile a kernel for argument types (by name, as `parse_argument` reads them).

    `start` is a stage and its text to start from instead of the source; `override` replaces stages
    by texts; `dump_dir` gets every stage as it is made. Without these, the disk cache is used.
    `report` is told what is being done.
    """
    plain = start is None and not override and dump_dir is None
    key = kept.key_of(fn, signature, constexprs, options) if plain else None
    if key is not None and (found := kept.find(key, fn.__name__)) is not None:
        return found
    if options.timeline:
        require_no_text(fn.__name__, start, override)
        without = replace(options, timeline=False)
        found = compile_kernel(
            *(fn, signature, constexprs, without),
            start=start,
            override=override,
            dump_dir=dump_dir,
            report=report,
        )
        compiled = _instrumented(found, options, dump_dir)
        if key is not None:
            kept.keep(key, compiled)
        return compiled
    work = Compilation(options, dump_dir, dict(override or {}), report=report)
    if start is not None:
        return resume(fn.__name__, start, work)
    plain_key = partial(kept.key_of, fn, signature, constexprs, tile_options(options))
    known = _looked_at(key, plain_key)
    if known is None:
        known = LookedAt(tile_level(work, fn, signature, constexprs), "")
    for_two = partial(_from_tile, fn.__name__, dump_dir)
    early = None if override else partial(at_first, compile_=for_two)
    built = _from_level(work, fn.__name__, "tile", known.tile, known.divided, early)
    if not override:
        built = beside(built, options, for_two)
    compiled = built.compiled()
    if key is not None:
        kept.keep(key, compiled)
    return compiled


def _from_level(
    work: Compilation,
    name: str,
    level: str,
    module: ModuleOp,
    divided: Divided | None = None,
    early: Callable[[Attempts], Built | None] | None = None,
) -> Built:
    """Go on from a level to machine code; a program at the tile level may be `divided` already.

    `early` may give the kernel instead, before machine code is made.
    """
    module = work.replaced(level, module)
    work.keep(level, module)
    if level == "tile":
        attempts = Attempts(work, name, module, divided)
        return (early and early(attempts)) or reassembled(work, attempts.best())
    if level == "aref":
        module = work.replaced("hopper", work.level("hopper", module.clone()))
        work.keep("hopper", module)
    return work.assemble(name, work.emitted(module), spec_of(module))


def _from_tile(name: str, dump: Path | None, options: Options, tile: ModuleOp) -> Built:
    return _from_level(Compilation(options, dump), name, "tile", tile)


def _instrumented(plain: Compiled, options: Options, dump: Path | None) -> Compiled:
    """A compiled kernel that records its timeline. No choice was made with timestamps in view."""
    attempts: list[Compiled] = []
    before = {
        level: str(plain.stages[level]) for level in ("tile", "aref") if level in plain.stages
    }
    for instrument in Instrument.attempts(options.timeline):
        module = plain.module("hopper")
        instrument.apply(module)
        module.verify()
        decided = Decisions([d for d in plain.decisions if not isinstance(d, Assembled)])
        work = Compilation(options, dump, {}, decided, dict(before))
        attempts.append(work.finish(plain.name, module).compiled())
        if len(attempts[-1].findings) <= len(plain.findings):
            return attempts[-1]
    return replace(attempts[-1], spec=disturbed(attempts[-1].spec, attempts[-1].findings))


def resume(name: str, start: tuple[str, str], work: Compilation) -> Compiled:
    """Compile from the text of a stage: `tile`, `aref`, `hopper` or `cu`."""
    stage, text = start
    if stage != "cu":
        return _from_level(work, name, stage, read_module(text, stage)).compiled()
    first = text.partition("\n")[0]
    if not first.startswith(SPEC_LINE):
        raise StageNotReadable(
            "the .cu stage cannot be read",
            expected=f"a first line `{SPEC_LINE}...`, which says how to launch it",
            found=repr(first[:60]),
        )
    spec = KernelSpec.from_json(first.removeprefix(SPEC_LINE))
    return work.assemble(name, text, spec).compiled()


@dataclass
class LookedAt:
    """A program that was looked at before a kernel is compiled: mostly the next to be."""

    tile: ModuleOp
    """Not changed any more, and the same for all options with the same `tile_options`."""
    tile_key: str
    """The key of the kernel with these options alone."""
    divided: Divided | None = None
    """Its roles, until a compilation takes them: later passes change them."""
    key: str = ""
    """The key of the kernel whose roles they are."""


_LAST: list[LookedAt] = []
"""The program that was looked at last."""


def keep_for_compiling(looked_at: LookedAt) -> None:
    """Keep a program for the kernel that is compiled next, if it is of this one."""
    _LAST[:] = [looked_at]


def tile_options(options: Options) -> Options:
    """The options that the first level depends on; the others as they are by default."""
    names = "num_warps", "default_dot_input_precision", "enable_reflect_ftz", "same_array"
    return Options(**{name: getattr(options, name) for name in names})


def _looked_at(key: str | None, tile_key: Callable[[], str]) -> LookedAt | None:
    """What is known of a kernel with its program, if that is the one that was looked at last."""
    last = _LAST[0] if key is not None and _LAST else None
    if last is None or last.tile_key != tile_key():
        return None
    divided = last.divided if last.key == key else None
    if divided is not None:
        last.divided = None
    return replace(last, divided=divided)


def tile_level(
    work: Compilation,
    fn: JITFunction,
    signature: Mapping[str, str],
    constexprs: Mapping[str, object],
    *,
    copied: bool = True,
) -> ModuleOp:
    """The program of the first level for argument types by name, after that level's passes.

    What descriptors address is `copied` by the copy engine, unless the program is only simulated.
    """
    begin = time.perf_counter()
    kinds = {name: parse_argument(text) for name, text in signature.items()}
    if copied:
        for kind in kinds.values():
            require_whole_rows(kind)
    options = work.options
    precision, flush = options.default_dot_input_precision, options.enable_reflect_ftz
    defaults = Defaults(options.num_warps, precision, flush)
    module = lower_to_tile(fn, kinds, constexprs, defaults)
    work.timings["tile"] = time.perf_counter() - begin
    return work.level("tile", module)
