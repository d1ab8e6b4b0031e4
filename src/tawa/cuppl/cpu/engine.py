"""Compiles LLVM IR text for this machine and hands out callable addresses.

Machine code is kept in memory and on disk by the text that it was made from, so the natives that
programs share, and programs that were compiled before, are not compiled again.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as _llvm

from tawa.runtime.cache import content_key, default_cache

llvm: Any = _llvm  # it has no type stubs

__all__ = [
    "Compiled",
    "Module",
    "compile_llvm",
    "compile_modules",
    "known_object",
    "link_objects",
    "object_code",
    "object_key",
]

PASSES = (
    "sroa", "always_inliner", "global_dead_code_eliminate", "sroa", "simplify_cfg",
    "instruction_combine", "new_gvn", "jump_threading", "tail_call_elimination", "simplify_cfg",
    "dead_store_elimination", "aggressive_dce",
)  # fmt: skip
"""What is run on programs, once each: a quarter of the time of LLVM's own O1, for code as fast.

What is worth inlining is marked in the text (`llvm.py`).
"""

SLOW = ("new_gvn",)
"""Passes whose time grows with the square of a function's length."""

LARGE = 9_000
"""Lines of a module from which it is compiled in linear time, to code that is not as fast."""

OPTIMISATION = "7"
"""Part of the key of what is kept: to be changed with what `object_code` does."""

_lock = threading.Lock()
_known: dict[str, bytes] = {}


@dataclass(frozen=True, slots=True)
class Module:
    """LLVM IR, with a name for its content if there is a shorter one than its text."""

    text: Callable[[], str]
    name: str = ""
    vectorise: bool = False
    """Worth the time of LLVM's whole optimiser."""


@dataclass(slots=True)
class Compiled:
    """Machine code in memory. Keep it alive as long as its addresses are in use."""

    engine: Any
    modules: Callable[[], Sequence[Module]]
    """What it was made from."""

    def address(self, symbol: str) -> int:
        """Address of an exported symbol; KeyError if there is none."""
        address = self.engine.get_function_address(symbol)
        if not address:
            raise KeyError(symbol)
        return address

    def function(self, symbol: str) -> ctypes._CFunctionType:  # pyright: ignore
        """An exported function of three pointers: context, arguments, results."""
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        return kind(self.address(symbol))

    def assembly(self) -> str:
        """Assembly text, one module after the other."""
        machines = [_target_machine(0 if is_large(m) else 2) for m in self.modules()]
        pairs = zip(machines, self.modules(), strict=True)
        return "\n".join(machine.emit_assembly(_optimised(machine, m)) for machine, m in pairs)


@cache
def _host() -> tuple[str, str]:
    """Name and features of this machine's processor."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _target_machine(level: int = 2) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = _host()
    triple = llvm.get_default_triple()
    # Absolute addresses: where a GPU's driver or much data fills the address space, sections may
    # lie out of each other's reach.
    absolute = triple.startswith("x86_64") and "linux" in triple
    reloc, model = ("static", "large") if absolute else ("pic", "small")
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=name, features=features, opt=level, reloc=reloc, codemodel=model, jit=True
    )


def is_large(source: Module) -> bool:
    """Whether LLVM's best would take too long."""
    return source.text().count("\n") > LARGE


def _optimised(machine: Any, source: Module) -> Any:
    """An optimised module. Float contraction stays off: results must not depend on the machine."""
    module = llvm.parse_assembly(source.text())
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2 if source.vectorise else 1)
    options.loop_vectorization = source.vectorise
    options.slp_vectorization = source.vectorise
    builder = llvm.create_pass_builder(machine, options)
    if source.vectorise:
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        large = is_large(source)
        for name in PASSES:
            if not (large and name in SLOW):
                getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)
    return module


def object_key(module: Module) -> str:
    """The name of a module's machine code in the cache."""
    return content_key(
        "cuppl object", OPTIMISATION, llvmlite.__version__, str(llvm.llvm_version_info),
        *_host(), str(module.vectorise), module.name or module.text(),
    )  # fmt: skip


def known_object(key: str) -> bytes | None:
    """Machine code that was made before."""
    if key not in _known:
        kept = default_cache().get(key)
        if kept is None or not _is_object(kept.get("object", b"")):
            return None
        _known[key] = kept["object"]
    return _known[key]


def _is_object(code: bytes) -> bool:
    """Whether this is an object file: LLVM crashes where it is given something else."""
    return code.startswith((b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\x64\x86"))


def object_code(module: Module) -> bytes:
    """An object file of a module, compiled unless it is known already."""
    key = object_key(module)
    found = known_object(key)
    if found is None:
        machine = _target_machine(0 if is_large(module) else 2)
        found = _known[key] = machine.emit_object(_optimised(machine, module))
        default_cache().put(key, {"object": found})
    return found


def compile_modules(modules: Sequence[Module]) -> Compiled:
    """Modules compiled and linked with each other."""
    with _lock:
        objects = [object_code(module) for module in modules]
    return link_objects(objects, lambda: modules)


def link_objects(objects: Sequence[bytes], modules: Callable[[], Sequence[Module]]) -> Compiled:
    """Object files linked with each other; `modules` is what they were made from."""
    with _lock:
        machine = _target_machine()
        empty = llvm.parse_assembly("")
        empty.triple = machine.triple
        empty.data_layout = str(machine.target_data)
        engine = llvm.create_mcjit_compiler(empty, machine)
        for code in objects:
            engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
    return Compiled(engine, modules)


def compile_llvm(text: str) -> Compiled:
    """A module that stands alone."""
    return compile_modules([Module(lambda: text)])
