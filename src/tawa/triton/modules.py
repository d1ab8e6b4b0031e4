"""What stands for Triton's own modules, besides its language, where Triton is not installed.

Libraries import more than they use: the tuner's classes, the errors of a compilation, the driver,
settings, caches. What can mean here what it means in Triton does; the rest can be imported and
says at its use that it is not there.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tawa import language
from tawa.base.errors import TawaError
from tawa.base.knobs import CACHE_DIR
from tawa.driver.compiled import Compiled
from tawa.language.host import cdiv, must_use_result, next_power_of_2
from tawa.runtime.autotune import Autotuner, Config, Heuristics, heuristics
from tawa.runtime.descriptor import TensorDescriptor
from tawa.triton import gluon, kernel, mxfp, objects, ragged, target_info, testing
from tawa.triton.kernel import JITFunction, KernelInterface, jit
from tawa.triton.objects import missing

LEVEL = "3.6.0"
"""The version of Triton whose language is understood."""


class TritonAutotuner(Autotuner):
    """The tuner with Triton's constructor and attributes, for packages that derive their own."""

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None,
        restore_value: Sequence[str] | None,
        pre_hook: Callable[..., None] | None = None,
        post_hook: Callable[..., None] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool = False,
    ) -> None:
        del arg_names, use_cuda_graph, cache_results  # the kernel knows; timing needs no graph
        super().__init__(
            fn,
            configs or [Config({})],
            key,
            prune_configs_by=prune_configs_by,
            reset_to_zero=reset_to_zero,
            restore_value=restore_value,
            pre_hook=pre_hook,
            post_hook=post_hook,
            warmup=warmup,
            rep=rep,
            do_bench=do_bench,
        )
        self.base_fn = fn
        while not inspect.isfunction(self.base_fn):
            self.base_fn = self.base_fn.fn
        self.keys = list(key)
        self.reset_to_zero, self.restore_value = (
            list(reset_to_zero or ()),
            list(restore_value or ()),
        )
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None
        self.early_config_prune = (prune_configs_by or {}).get("early_config_prune")


def autotune(
    configs: Sequence[Config], key: Sequence[str], **options: Any
) -> Callable[[Any], TritonAutotuner]:
    """`triton.autotune`: a decorator that measures a kernel with each configuration."""
    reset, restore = options.pop("reset_to_zero", None), options.pop("restore_value", None)

    def decorate(fn: Any) -> TritonAutotuner:
        return TritonAutotuner(fn, fn.arg_names, configs, key, reset, restore, **options)

    return decorate


class FileCacheManager:
    """A folder of the cache for a key, as `triton.runtime.cache` has it."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        if override or dump:
            raise objects.NotProvided("a cache of overridden or dumped stages")
        self.key = key
        self.cache_dir = str(CACHE_DIR.get() / "triton" / key)

    def has_file(self, filename: str) -> bool:
        """Whether a file is there."""
        return (Path(self.cache_dir) / filename).exists()

    def get_file(self, filename: str) -> str | None:
        """The path of a file; None if it is not there."""
        return str(Path(self.cache_dir) / filename) if self.has_file(filename) else None

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        """Write a file whole; gives its path."""
        folder = Path(self.cache_dir)
        folder.mkdir(parents=True, exist_ok=True)
        content = data if isinstance(data, bytes) else str(data).encode()
        unfinished = folder / f"{filename}.{id(data)}"
        unfinished.write_bytes(content)
        unfinished.replace(folder / filename)
        del binary  # text is UTF-8 in any case
        return str(folder / filename)


def _no_allocator(allocator: Any) -> None:
    """`triton.set_allocator`: descriptors need no memory of their own here."""
    del allocator


ERRORS: dict[str, Any] = {
    "TritonError": TawaError,
    "OutOfResources": TawaError,
    "PTXASError": TawaError,
    "AutotunerError": TawaError,
    "InterpreterError": missing("triton.runtime.InterpreterError", Exception),
}
COMPILATION: dict[str, Any] = dict.fromkeys(
    ("CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"), TawaError
)
TUNER: dict[str, Any] = {
    "Autotuner": TritonAutotuner, "Config": Config, "Heuristics": Heuristics,
    "autotune": autotune, "heuristics": heuristics,
}  # fmt: skip
FUNCTIONS: dict[str, Any] = {
    "JITFunction": JITFunction, "JITCallable": JITFunction, "jit": jit,
    "KernelInterface": KernelInterface, "KernelParam": kernel.KernelParam,
    "TensorWrapper": objects.TensorWrapper, "reinterpret": objects.reinterpret,
    "MockTensor": missing("triton.runtime.MockTensor"),
    "constexpr_function": language.constexpr_function,
}  # fmt: skip
COMPILER: dict[str, Any] = {
    "ASTSource": objects.ASTSource, "CompiledKernel": Compiled, "compile": objects.compile,
    "make_backend": objects.make_backend, "triton_key": objects.triton_key,
    "GPUTarget": objects.GPUTarget, "IRSource": missing("triton.compiler.IRSource"),
    "LazyDict": missing("triton.compiler.LazyDict"),
}  # fmt: skip
DRIVERS = objects.DriverConfig()


def public(module: types.ModuleType) -> Mapping[str, Any]:
    """The names of a module of ours that is Triton's under another name."""
    return {name: value for name, value in vars(module).items() if name[0] != "_"}


def contents() -> Mapping[str, Mapping[str, Any]]:
    """The names in each module of Triton's, by its path."""
    top = {
        "__version__": LEVEL, "set_allocator": _no_allocator, "TensorDescriptor": TensorDescriptor,
        "cdiv": cdiv, "next_power_of_2": next_power_of_2, "must_use_result": must_use_result,
        "AsyncCompileMode": missing("triton.AsyncCompileMode"),
        "FutureKernel": missing("triton.FutureKernel"),
    }  # fmt: skip
    measures = (
        "do_bench", "do_bench_cudagraph", "get_dram_gbps", "assert_close", "Benchmark", "Mark",
        "perf_report",
    )  # fmt: skip
    peaks = "get_max_tensorcore_tflops", "get_max_simd_tflops", "nvsmi", "set_gpu_clock"
    return {
        "triton": {**FUNCTIONS, **TUNER, **COMPILER, **COMPILATION, **ERRORS, **top},
        **_backends(),
        "triton.compiler": {**COMPILER, **COMPILATION},
        "triton.compiler.compiler": COMPILER,
        "triton.compiler.errors": {**COMPILATION, "TritonError": TawaError},
        "triton.errors": {"TritonError": TawaError},
        "triton.compiler.code_generator": {"ast_to_ttir": missing("triton.compiler.ast_to_ttir")},
        "triton.knobs": objects.KNOBS,
        **_profiler(),
        **_runtime(),
        **gluon.contents(),
        "triton.testing": {
            **{name: missing(f"triton.testing.{name}") for name in peaks},
            **{name: getattr(testing, name) for name in measures},
        },
        "triton.language.target_info": public(target_info),
        "triton.tools": {},
        "triton.tools.ragged_tma": public(ragged),
        "triton.tools.mxfp": {
            "MXFP4Tensor": mxfp.MXFP4Tensor,
            "MXScaleTensor": mxfp.MXScaleTensor,
        },
        "triton.tools.tensor_descriptor": {"TensorDescriptor": TensorDescriptor},
    }


def _backends() -> Mapping[str, Mapping[str, Any]]:
    driver, backend = objects.ActiveDriver, objects.Backend
    nvidia = types.SimpleNamespace(compiler=backend, driver=driver)
    return {
        "triton.backends": {"backends": {"nvidia": nvidia}, "DriverBase": driver},
        "triton.backends.compiler": {
            "GPUTarget": objects.GPUTarget, "BaseBackend": backend, "Backend": backend,
            "Language": missing("triton.backends.compiler.Language"),
        },
        "triton.backends.driver": {"DriverBase": driver, "GPUDriver": driver},
        "triton.backends.nvidia": {},
        "triton.backends.nvidia.compiler": {
            "CUDABackend": backend, "CUDAOptions": missing("triton.backends.nvidia.CUDAOptions"),
            "get_ptxas": objects.get_ptxas,
        },
        "triton.backends.nvidia.driver": {"CudaDriver": driver},
    }  # fmt: skip


def _profiler() -> Mapping[str, Mapping[str, Any]]:
    sessions = "start", "activate", "deactivate", "finalize", "profile"
    return {
        "triton.profiler": {
            "scope": objects.scope,
            **{name: missing(f"triton.profiler.{name}") for name in sessions},
        },
        "triton.profiler.viewer": {
            name: missing(f"triton.profiler.viewer.{name}") for name in ("parse", "print_tree")
        },
    }


def _runtime() -> Mapping[str, Mapping[str, Any]]:
    interpreted = missing("triton.runtime.interpreter.InterpretedFunction")
    functions = {name: value for name, value in FUNCTIONS.items() if name != "jit"}  # a module
    return {
        "triton.runtime": {**TUNER, **ERRORS, **functions, "driver": DRIVERS},
        "triton.runtime.autotuner": {**TUNER, **ERRORS},
        "triton.runtime.cache": {
            "FileCacheManager": FileCacheManager, "get_cache_manager": FileCacheManager,
            "triton_key": objects.triton_key, "default_cache_dir": _cache_folder,
        },
        "triton.runtime.driver": {"driver": DRIVERS},
        "triton.runtime.errors": ERRORS,
        "triton.runtime.interpreter": {"InterpretedFunction": interpreted},
        "triton.runtime.jit": FUNCTIONS,
    }  # fmt: skip


def _cache_folder() -> str:
    return str(CACHE_DIR.get() / "triton")
