"""Each value is looked at once: what is read twice, forty times over, takes no longer to compile."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.work import calls_made

from tawa.driver.compilation import Compilation
from tawa.driver.jit import Kernel
from tawa.frontend import lower_to_tile, parse_argument

TIMES = 40
CALLS = 20_000_000
"""A walk along all ways through the values would make 2**40."""

HEAD = "import tawa\nimport tawa.language as tl\n\n\n@tawa.jit\ndef kernel(a, o, n, wide):\n"
BEGIN = ["r, c = tl.arange(0, 64)[:, None], tl.arange(0, 32)[None, :]", "s = n + tl.program_id(0)"]

TWICE = {
    "places of a tile": ("w", "({0} + {0} // 2) % 7", [
        "w = tl.arange(0, 32)", "...", "x = tl.load(a + (w & 63)[None, :] + r * wide)"]),
    "a descriptor's base": ("s", "tl.minimum({0} * {0}, {0} + {0} // 3)", [
        "s = n", "...",
        "d = tl.make_tensor_descriptor(a + s, [n, wide], [wide, 1], [64, 32])", "x = d.load([0, 0])"]),
    "a tile before it is stored": ("x", "tl.maximum({0} * 2 - {0}, {0} - {0})", [
        "x = tl.load(a + r * wide + c)", "..."]),
    "a mask": ("m", "({0} & (s > 1)) | ({0} & (s < 3))", [
        "m = c > 3", "...", "x = tl.load(a + r * wide + c, mask=m, other=0)"]),
    "a loop's end": ("s", "({0} + {0} // 2) % 7", [
        "...", "x = r + c", "for i in range(s):", "    x += tl.load(a + r * wide + c + i)"]),
}  # fmt: skip


def kernel_of(path: Path, name: str) -> Kernel:
    """A kernel whose values are read twice by each next one."""
    value, form, body = TWICE[name]
    again = [f"{value} = {form.format(value)}"] * TIMES
    lines = [line for part in body for line in (again if part == "..." else [part])]
    path.write_text(HEAD + "".join(f"    {line}\n" for line in [*BEGIN, *lines, STORE]))
    names: dict[str, object] = {"__name__": "long", "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), names)
    found = names["kernel"]
    assert isinstance(found, Kernel)
    return found


STORE = "tl.store(o + r * 32 + c, x.to(tl.int32))"


@pytest.mark.parametrize("name", TWICE)
def test_values_are_looked_at_once(name: str, tmp_path: Path) -> None:
    kernel = kernel_of(tmp_path / "long.py", name)
    request = kernel.request("*i32:16", "*i32:16", "i32", "i32")

    def lower() -> None:
        work = Compilation(request.options)
        module = lower_to_tile(kernel, [parse_argument(t) for t in request.types.values()], {})
        for level in ("tile", "aref", "hopper"):
            module = work.level(level, module)

    assert calls_made(lower) < CALLS
