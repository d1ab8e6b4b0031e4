"""CHECK comments in kernels: patterns that a stage's text must hold, one after the other.

    # CHECK aref: aref.warp_group
    # CHECK aref: dot_issue
    # CHECK-NOT aref: tile.dot

Patterns are regular expressions; `CHECK-NOT` ones occur nowhere.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tawa.driver.compiled import Compiled

DIRECTIVE = re.compile(r"#\s*CHECK(?P<no>-NOT)?\s+(?P<stage>\w+):\s*(?P<pattern>.+?)\s*$", re.M)


def check_comments(kernel: Any, compiled: Compiled) -> int:
    """Check the comments in a kernel's source; returns how many there are."""
    source = inspect.getsource(kernel.fn)
    places: dict[str, int] = {}
    found = list(DIRECTIVE.finditer(source))
    for match in found:
        stage, pattern = match["stage"], match["pattern"]
        text = str(compiled.stages[stage])
        if match["no"]:
            hit = re.search(pattern, text)
            assert hit is None, f"CHECK-NOT {stage}: {pattern!r} is there: {_line(text, hit)}"
            continue
        hit = re.compile(pattern).search(text, places.get(stage, 0))
        assert hit is not None, f"CHECK {stage}: {pattern!r} is not there (any more)"
        places[stage] = hit.end()
    return len(found)


def _line(text: str, hit: re.Match[str] | None) -> str:
    assert hit is not None
    start = text.rfind("\n", 0, hit.start()) + 1
    return text[start : text.find("\n", hit.end())].strip()


def op_counts(module: ModuleOp) -> Counter[str]:
    """How often each op occurs."""
    return Counter(op.name for op in module.walk())


def dialects(module: ModuleOp) -> set[str]:
    """The dialects of a module's ops."""
    return {op.name.partition(".")[0] for op in module.walk()}
