"""Kernels compiled before, kept on disk by content; found without loading the compiler."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from tawa.base.options import Options
from tawa.driver.compiled import Compiled
from tawa.frontend.source.dependencies import dependency_text
from tawa.frontend.source.function import JITFunction, is_jit_function
from tawa.runtime.cache import content_key, default_cache
from tawa.runtime.nvrtc import version
from tawa.runtime.spec import KernelSpec

FOLDERS = (
    *("machine", "base", "scalars", "ir", "language", "frontend", "tile", "partition", "aref"),
    *("pipeline", "codegen", "hopper", "driver", "runtime"),
)
"""Folders of this package whose content decides what a kernel compiles to."""


def key_of(
    fn: JITFunction, signature: Mapping[str, str], constants: Mapping[str, object], options: Options
) -> str:
    """What a compilation depends on: the kernel, all it refers to, types, constants, compilers."""
    functions = [cast(Any, c) for c in constants.values() if is_jit_function(c)]
    called = [dependency_text(JITFunction(c)) for c in functions]
    parts = [repr(dict(signature)), repr(dict(constants)), repr(options)]
    return content_key(dependency_text(fn), *called, *parts, version(), own_version())


@cache
def own_version() -> str:
    """The content of the compiler's own source, so that a changed compiler misses the cache."""
    root = Path(__file__).parent
    files = [p for folder in FOLDERS for p in sorted((root / folder).rglob("*.py"))]
    return content_key(*(p.read_bytes() for p in (*files, *sorted(root.glob("*.py")))))


def find(key: str, name: str) -> Compiled | None:
    """The compiled kernel of a key; None if there is none."""
    entry = default_cache().get(key)
    if entry is None:
        return None
    texts = {s: entry[s].decode() for s in ("tile", "aref", "hopper", "cu", "ptx") if s in entry}
    extra: dict[str, Any] = json.loads(entry["json"])
    stages: dict[str, str | bytes] = {**texts, "cubin": entry["cubin"]}
    spec = KernelSpec.from_json(extra["spec"])
    remarks, findings = tuple(extra["remarks"]), tuple(extra["findings"])
    return Compiled(name, stages, spec, extra["log"], remarks, findings=findings)


def has(key: str) -> bool:
    """Whether there is an entry of a key, readable or not."""
    return default_cache().has(key)


def keep(key: str, compiled: Compiled) -> None:
    """Store a compiled kernel."""
    extra = {
        "spec": compiled.spec.to_json(),
        "log": compiled.log,
        "remarks": compiled.remarks,
        "findings": compiled.findings,
    }
    entry = {
        stage: content.encode() if isinstance(content, str) else content
        for stage, content in compiled.stages.items()
    }
    default_cache().put(key, {**entry, "json": json.dumps(extra).encode()})
