"""The compile cache: kernels kept on disk by content, found without loading the compiler."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from tawa.base.import_closure import installed_versions, source_digest
from tawa.base.kernel_spec import InvalidSpec, KernelSpec
from tawa.base.options import Options
from tawa.driver.compiled import Compiled
from tawa.frontend.source.dependencies import dependencies_of, described
from tawa.frontend.source.function import JITFunction
from tawa.ir.decisions.decision import from_json, to_json
from tawa.runtime.cache import content_key, default_cache
from tawa.runtime.compile_log import CompileReport
from tawa.runtime.nvrtc import version

MAKER = "tawa.driver.compiler"
"""The module that compiles: it and all that it imports decide what a kernel compiles to."""

PACKAGES = "xdsl", "numpy"
"""Packages that it computes with."""


def key_of(
    fn: JITFunction, signature: Mapping[str, str], constants: Mapping[str, object], options: Options
) -> str:
    """What a compilation depends on: the kernel, all it refers to, types, constants, compilers."""
    fixed = described(dict(constants))
    parts = [repr(dict(signature)), fixed, repr(options), repr(options.machine)]
    return content_key(dependencies_of(fn).digest, *parts, *compiler_version())


def compiler_version() -> tuple[str, ...]:
    """The compiler's own source, and the versions of all that it compiles with."""
    source = source_digest(MAKER, store=default_cache())
    return sys.version, version(), *installed_versions(*PACKAGES), source


def find(key: str, name: str) -> Compiled | None:
    """The compiled kernel of a key; None if there is none."""
    entry = default_cache().get(key)
    if entry is None:
        return None
    try:
        return _compiled(entry, name)
    except (ValueError, KeyError, TypeError, AttributeError, InvalidSpec):
        return None  # not what `keep` writes: compiled again


def _compiled(entry: Mapping[str, bytes], name: str) -> Compiled:
    texts = {s: entry[s].decode() for s in ("tile", "aref", "hopper", "cu", "ptx") if s in entry}
    extra: dict[str, Any] = json.loads(entry["json"])
    stages: dict[str, str | bytes] = {**texts, "cubin": entry["cubin"]}
    spec = KernelSpec.from_json(extra["spec"])
    report = CompileReport.from_json(extra["assembled"])
    return Compiled(name, stages, spec, extra["log"], report, from_json(extra["decisions"]))


def has(key: str) -> bool:
    """Whether there is an entry of a key, readable or not."""
    return default_cache().has(key)


def keep(key: str, compiled: Compiled) -> None:
    """Store a compiled kernel."""
    extra = {
        "spec": compiled.spec.to_json(),
        "log": compiled.log,
        "assembled": compiled.assembled.to_json(),
        "decisions": to_json(compiled.decisions),
    }
    entry = {
        stage: content.encode() if isinstance(content, str) else content
        for stage, content in compiled.stages.items()
    }
    default_cache().put(key, {**entry, "json": json.dumps(extra).encode()})
