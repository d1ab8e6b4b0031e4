"""Compiles LLVM IR text for this machine and hands out callable addresses."""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as _llvm

llvm: Any = _llvm  # it has no type stubs

__all__ = ["Compiled", "compile_llvm"]

_lock = threading.Lock()


@dataclass(slots=True)
class Compiled:
    """Machine code in memory. Keep it alive as long as its addresses are in use."""

    engine: Any
    module: Any
    machine: Any

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
        """Assembly text of the optimised module."""
        return self.machine.emit_assembly(self.module)


def _target_machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


def compile_llvm(text: str, level: int = 2) -> Compiled:
    """Optimise and compile a module.

    Float contraction stays off: results must not depend on the machine.
    """
    with _lock:
        machine = _target_machine()
        module = llvm.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        options.loop_vectorization = level > 1
        options.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, options)
        passes = builder.getModulePassManager()
        passes.run(module, builder)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
    return Compiled(engine, module, machine)
