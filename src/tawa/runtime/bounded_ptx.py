"""PTX assembled again with another bound of its registers, its C++ not compiled again.

NVRTC takes no PTX. But a kernel that is one piece of inline assembly is hardly compiled: the
assembler gets the same PTX with another bound. Of kernels of libraries it takes a quarter to a half
of what compiling the C++ takes, and gives the same machine code wherever the compiler's choices do
not depend on the bound.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tawa.runtime.nvrtc import CompiledCuda, CudaCompileError, compile_cuda

_HEAD = re.compile(
    r"(?:\s|//[^\n]*\n|\.version [\d.]+\n|\.target \w+\n|\.address_size 64\n)*"
    r"(?:\.extern \.shared \.align (?P<align>\d+) \.b8 (?P<shared>\w+)\[\];\s*)?"
)
"""All that may be before a kernel: no other functions, and no variables but its shared memory."""

_KERNEL = re.compile(
    r"\.visible \.entry (?P<name>\w+)\((?P<parameters>[^()]*)\)\n"
    r"\.maxntid (?P<threads>\d+), 1, 1\n\.minnctapersm \d+\n(?P<body>\{\n.*\n\})\s*",
    re.DOTALL,
)
_PARAMETER = re.compile(
    r"\.param \.(?:align (?P<align>\d+) )?\.?(?P<type>\w+) \w+(?:\[(?P<count>\d+)\])?"
)
_BOUND = re.compile(r"^\.minnctapersm \d+$", re.MULTILINE)

TYPES = {
    **{f"u{bits}": f"unsigned {name}" for bits, name in ((8, "char"), (16, "short"), (32, "int"))},
    "u64": "unsigned long long",
    "f32": "float",
    "f64": "double",
}
"""C++ types whose parameters have these types of PTX."""


def bounded(
    product: CompiledCuda, target: str, ctas: int, name: str, options: tuple[str, ...] = ()
) -> CompiledCuda | None:
    """The product with so few registers that so many CTAs of its kernel share a multiprocessor.

    None if its PTX is more than one kernel, or is not taken as inline assembly.
    """
    text = inline(product.ptx, ctas)
    if text is None:
        return None
    try:
        found = compile_cuda(text, target, name=name, options=options)
    except CudaCompileError:
        return None
    return replace(found, ptx=_BOUND.sub(f".minnctapersm {ctas}", product.ptx, count=1))


def inline(ptx: str, ctas: int) -> str | None:
    """A kernel of PTX as C++ with one piece of assembly; None if the PTX is more than a kernel."""
    head = _HEAD.match(ptx)
    assert head is not None, "what may be before a kernel may also be nothing"
    kernel = _KERNEL.fullmatch(ptx, head.end())
    if kernel is None:
        return None
    parameters = [_parameter(text) for text in kernel["parameters"].split(",") if text.strip()]
    if None in parameters:
        return None
    given = ", ".join(f"{kind} p{number}" for number, kind in enumerate(parameters))
    return (
        "template <int align, int bytes> struct alignas(align) Block { char all[bytes]; };\n"
        f'extern "C" __global__ void __launch_bounds__({kernel["threads"]}, {ctas})\n'
        f"{kernel['name']}({given}) {{\n{_shared(head['align'], head['shared'])}"
        f'  asm volatile(R"ptx({kernel["body"]})ptx");\n}}\n'
    )


def _shared(align: str | None, name: str | None) -> str:
    """The declaration of shared memory that PTX addresses by name, with a use that is no code."""
    if name is None:
        return ""
    declared = f"extern __shared__ __align__({align}) unsigned char {name}[];"
    return f'  {declared}\n  asm volatile("" ::"l"({name}));\n'


def _parameter(text: str) -> str | None:
    """The C++ type of a parameter that PTX declares; None if there is none."""
    found = _PARAMETER.fullmatch(text.strip())
    if found is None:
        return None
    if found["count"] is None:
        return TYPES.get(found["type"])
    return f"Block<{found['align']}, {found['count']}>" if found["type"] == "b8" else None
