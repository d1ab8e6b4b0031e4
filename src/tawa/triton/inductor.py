"""Takes over the kernels that TorchInductor generates.

Inductor compiles a kernel for each configuration, measures them, and calls the launcher of the
best; what it compiled may come from another process or from a file. A result of ours takes the
place of each result of Triton's just before the launchers are made, so that all the rest, choosing
among configurations included, stays Inductor's. Its signatures declare the types of arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tawa.driver.jit import Kernel
from tawa.language.annotations import declaration_of
from tawa.runtime.arrays import HOST
from tawa.triton.ledger import REFUSED, SIMULATOR, TAWA, TRITON
from tawa.triton.promised import Run, promised_launch
from tawa.triton.takeover import Adopted, Takeover, reason

HEURISTICS = "torch._inductor.runtime.triton_heuristics"

_originals: dict[str, Any] = {}


def take(takeover: Takeover) -> None:
    """Let the kernels of code that Inductor generates be ours from now on."""
    heuristics: Any = sys.modules[HEURISTICS]
    tuner = heuristics.CachingAutotuner
    if _originals:
        give_back()
    _originals.update(config=tuner._precompile_config, launchers=tuner._make_launchers)

    def precompile_config(self: Any, cfg: Any) -> Any:
        ours = result_of(takeover, heuristics, self, cfg)
        return _originals["config"](self, cfg) if ours is None else ours

    def make_launchers(self: Any) -> None:
        """Results that another process or a file gave are Triton's until here."""
        if len(self.launchers) != len(self.compile_results):
            self.compile_results = [
                result
                if isinstance(result, heuristics.CompileResult) and hasattr(result, "adopted")
                else result_of(takeover, heuristics, self, result.config) or result
                for result in self.compile_results
            ]
        _originals["launchers"](self)

    tuner._precompile_config, tuner._make_launchers = precompile_config, make_launchers


def give_back() -> None:
    """Let Inductor's kernels be Triton's again; those that have launchers keep them."""
    if _originals:
        tuner: Any = sys.modules[HEURISTICS].CachingAutotuner  # type: ignore[attr-defined]
        tuner._precompile_config = _originals.pop("config")
        tuner._make_launchers = _originals.pop("launchers")


def result_of(takeover: Takeover, heuristics: Any, tuner: Any, config: Any) -> Any:
    """Our result for one configuration; None if Triton is to make it.

    Raises, in strict mode, what Inductor takes for a configuration that does not fit.
    """
    if tuner.fn.fn is None:  # it came from another process, without its source
        tuner.fn = tuner._reload_kernel().fn
    meta = tuner._create_compile_meta(config)
    types = types_of(meta)
    adopted = takeover.adopted(tuner.fn, types)
    adopted.name = tuner.inductor_meta.get("kernel_name", adopted.name)
    if takeover.leaves(tuner.fn) or is_stored(tuner):
        stays = takeover.leaves(tuner.fn)
        why = "left to Triton" if stays else "its binary is stored for a launcher of Triton's"
        adopted.count(TRITON, why)
        return None
    try:
        compiled = compile_for(adopted.kernel, types, meta)
    except Exception as error:
        why = reason(error)
        if takeover.strict:
            adopted.count(REFUSED, why)
            raise heuristics.PTXASError(why) from error
        adopted.warn(why, error)
        adopted.count(TRITON, why)
        return None
    return _result(heuristics, adopted, compiled, config, meta, tuner.inductor_meta)


def types_of(meta: Mapping[str, Any]) -> dict[str, str]:
    """The types that a signature declares, by parameter."""
    signature = meta["signature"].items()
    return {n: declaration_of(type_).type for n, type_ in signature if type_ != "constexpr"}


def is_stored(tuner: Any) -> bool:
    """Whether Inductor stores a kernel's binary for a launcher of Triton's."""
    return bool(tuner.inductor_meta.get("store_cubin", False))


def compile_for(kernel: Kernel, types: dict[str, str], meta: dict[str, Any], **more: Any) -> Any:
    """Compile for a signature, with the divisors that it promises; `more` are launch options.

    Raises `TawaError`s.
    """
    places = {name: number for number, name in enumerate(kernel.arg_names)}
    attributes: dict[Any, Any] = meta["configs"][0] if meta.get("configs") else {}
    constants = {n: v for n, v in meta["constants"].items() if isinstance(n, str) and n in places}
    given = {
        name: f"{type_}:16" if attributes.get((places[name],)) else type_
        for name, type_ in types.items()
        if name not in constants
    }
    return kernel.compile(**given, **constants, **options(meta), **more)


def options(meta: dict[str, Any]) -> dict[str, Any]:
    """The options of a launch among what Inductor knows of a compilation."""
    names = "num_warps", "num_stages", "enable_fp_fusion", "launch_cooperative_grid", "launch_pdl"
    return {name: meta[name] for name in names if meta.get(name) is not None}


def _result(
    heuristics: Any, adopted: Adopted, compiled: Any, config: Any, meta: Any, inductor_meta: Any
) -> Any:
    class Result(heuristics.CompileResult):
        """A result of Inductor's whose launcher launches a kernel of ours."""

        def make_launcher(self) -> Any:
            function = adopted.function
            call, takes, _ = self._get_arg_lists(
                function.arg_names, heuristics.get_constexprs(function)
            )
            given = dict(zip(function.arg_names, call, strict=True))
            types = {
                name: type_
                for name, type_ in meta["signature"].items()
                if type_ != "constexpr" and name not in meta["constants"]
            }
            known = {n: v for n, v in meta["constants"].items() if n in given and n not in takes}
            others = [f"{n}={v}" for n, v in given.items() if n not in types and n not in known]
            scope: dict[str, Any] = {
                "runner": _runner(adopted, compiled, types, {**known, **options(meta)}),
                "grid_meta": config.kwargs,
                "math": __import__("math"),
                "torch": sys.modules["torch"],
                "triton": sys.modules["triton"],
            }
            places = ["grid_0", "grid_1", "grid_2", "stream"]
            launcher = self._gen_launcher_code(
                scope, takes, [*places, *(given[name] for name in types), *others]
            )
            launcher.config = config
            launcher.n_regs, launcher.n_spills = compiled.n_regs, compiled.n_spills
            launcher.shared = compiled.spec.shared_bytes
            launcher.cache_hash = compiled.hash
            launcher.store_cubin = False
            return launcher

    result = Result(compiled, config, meta, inductor_meta)
    result.adopted = adopted
    return result


def _runner(
    adopted: Adopted, compiled: Any, types: Mapping[str, str], fixed: Mapping[str, Any]
) -> Run:
    kernel = adopted.kernel

    def look(x: int, y: int, z: int, stream: Any, *values: Any, **rest: Any) -> None:
        """A launch like any other: its arguments are looked at."""
        grid = x, y, z
        given = {**dict(zip(types, values, strict=True)), **rest, **fixed, "stream": stream}
        entry, passed, stream = kernel.prepared((), given, grid)
        entry.launch(grid, passed, stream)
        adopted.count(SIMULATOR if entry.place == HOST else TAWA)

    return promised_launch(compiled, types, look, lambda: adopted.count(TAWA))
