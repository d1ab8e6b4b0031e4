"""Mistakes that users make: each a program that ends in the line that fails, or a command."""

from dataclasses import dataclass

KERNELS = "import tawa\n\n@tawa.jit\ndef scale(x): pass\n"
"""The file `kernels.py` that commands are about."""

KERNEL = """\
import numpy as np
import tawa
import tawa.language as tl

x = y = np.ones(256, np.float32)

@tawa.jit
def kernel(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    {}

kernel[(2,)](x, 256, BLOCK=128)
"""
PRODUCT = """\
import numpy as np
import tawa
import tawa.language as tl

x = np.ones((64, 64), np.float16)
tile = tawa.TensorDescriptor.from_tensor(x, [64, 64])

@tawa.jit
def kernel(a, b, c):
    c.store([0, 0], {})

kernel[(1,)](tile, tile, tile)
"""
LAUNCH = KERNEL.format("tl.store(x + i, a + 1, mask=i < n)").rpartition("kernel[")[0]
AXON = "import numpy as np\nfrom tawa import axon\n\n"
CUPPL = "from tawa import cuppl\n\n"


@dataclass(frozen=True)
class Mistake:
    """A program (or a command) that ends in an error; `caret` is the text above the carets."""

    name: str
    error: str
    program: str = ""
    caret: str = ""
    command: tuple[str, ...] = ()
    advice: bool = True
    """Whether there is something to do that what was expected does not say already."""

    @property
    def file(self) -> str:
        """The name of its file."""
        return "mistake_" + self.name.replace("-", "_")

    @property
    def parts(self) -> tuple[str, str]:
        """What comes before the line that fails, and that line."""
        before, _, last = self.program.rstrip("\n").rpartition("\n")
        return before + "\n", last + "\n"


def in_kernel(name: str, error: str, line: str, caret: str) -> Mistake:
    """A mistake in a kernel's text."""
    return Mistake(name, error, KERNEL.format(line), caret)


def in_product(name: str, error: str, product: str) -> Mistake:
    """A mistake in a product of tiles."""
    return Mistake(name, error, PRODUCT.format(product), product)


def in_line(name: str, error: str, before: str, line: str) -> Mistake:
    """A mistake in the last line of a program."""
    return Mistake(name, error, before + line + "\n", line)


def in_model(
    name: str, error: str, before: str, line: str, caret: str, *, advice: bool = True
) -> Mistake:
    """A mistake in the text of a program in another language."""
    return Mistake(name, error, before + line + "\n", caret, advice=advice)


def in_command(name: str, error: str, *words: str) -> Mistake:
    """A mistake on the command line."""
    return Mistake(name, error, command=("tawa", *words))


MISTAKES = (
    in_kernel("shapes", "TileShapeMismatch", "b = a + tl.zeros((64, 2), tl.int1)", "a + tl.zeros((64, 2), tl.int1)"),
    in_kernel("name", "UndefinedName", "tl.store(x + j, a)", "j"),
    in_kernel("function", "UnknownAttribute", "b = tl.lod(x + i)", "tl.lod"),
    in_kernel("size", "BadArgument", "b = tl.arange(0, 100)", "tl.arange(0, 100)"),
    in_kernel("run-time-size", "NotConstant", "b = tl.zeros((n,), tl.int1)", "tl.zeros((n,), tl.int1)"),
    in_kernel("comprehension", "UnsupportedSyntax", "b = [k for k in range(3)]", "[k for k in range(3)]"),
    in_kernel("exception", "UnsupportedSyntax", "raise ValueError(n)", "raise ValueError(n)"),
    in_kernel("python-function", "UndefinedName", "b = sorted(a)", "sorted"),
    in_kernel("pointer-as-array", "UnsupportedSyntax", "tl.store(x[i], a)", "x[i]"),
    in_kernel("store-to-number", "TypeMismatch", "tl.store(n, a)", "tl.store(n, a)"),
    in_kernel("condition", "TypeMismatch", "b = 1 if a > 0 else 2", "1 if a > 0 else 2"),
    in_kernel("keyword", "WrongArguments", "tl.store(x + i, a, masks=i < n)", "tl.store(x + i, a, masks=i < n)"),
    in_kernel("loop-type", "LoopTypeChange", "b = 0\n    for k in range(n):\n        b = a", "b"),
    in_kernel("global-array", "UnusableGlobal", "tl.store(x + i, a + y)", "y"),
    in_product("inner-size", "TileShapeMismatch", "tl.dot(a.load([0, 0]), tl.zeros((32, 64), tl.float16))"),
    in_product("operand-types", "TypeMismatch", "tl.dot(a.load([0, 0]), b.load([0, 0]).to(tl.float32))"),
    in_line("no-grid", "WrongLaunchArguments", LAUNCH, "kernel(x, 256, BLOCK=128)"),
    in_line("grid-fraction", "BadGrid", LAUNCH, "kernel[(1.5,)](x, 256, BLOCK=128)"),
    in_line("grid-text", "BadGrid", LAUNCH, 'kernel["1"](x, 256, BLOCK=128)'),
    in_line("grid-function", "BadGrid", LAUNCH, "kernel[lambda: (2,)](x, 256, BLOCK=128)"),
    in_line("grid-name", "BadGrid", LAUNCH, 'kernel[lambda meta: (meta["BLOKC"],)](x, 256, BLOCK=128)'),
    in_line("grid-array", "BadGrid", LAUNCH, "kernel[np.ones((30, 30))](x, 256, BLOCK=128)"),
    in_line("argument-missing", "WrongLaunchArguments", LAUNCH, "kernel[(2,)](x, BLOCK=128)"),
    in_line("argument-list", "UnsupportedArgument", LAUNCH, "kernel[(2,)]([1.0, 2.0], 256, BLOCK=128)"),
    in_line("element-type", "UnsupportedElementType", LAUNCH, "kernel[(2,)](x.astype(complex), 256, BLOCK=128)"),
    in_line("constant-list", "ConstantNotHashable", LAUNCH, "kernel[(2,)](x, 256, BLOCK=[128])"),
    in_line("option-name", "UnknownLaunchOption", LAUNCH, "kernel[(2,)](x, 256, BLOCK=128, num_stage=3)"),
    in_line("option-value", "BadOption", LAUNCH, "kernel[(2,)](x, 256, BLOCK=128, num_warps=3)"),
    in_line("options-clash", "BadOption", LAUNCH, "kernel[(2,)](x, 256, BLOCK=128, num_stages=2, mma_depth=2)"),
    in_line("chip", "BadOption", LAUNCH, 'kernel[(2,)](x, 256, BLOCK=128, chip="h300")'),
    in_line("type-text", "BadTypeText", LAUNCH, 'kernel.compile("pointer", "i32", BLOCK=128)'),
    in_line("descriptor", "DescriptorMismatch", LAUNCH, "tawa.TensorDescriptor.from_tensor(x.reshape(16, 16), [16])"),
    in_line("lambda", "NoSource", "import tawa\n\nkernel = tawa.jit(lambda x: x)\n", "kernel[(1,)](1)"),
    in_line("outside-kernel", "OutsideKernel", LAUNCH, "tl.load(x)"),
    in_line("class", "NoSource", LAUNCH, "tawa.jit(int)"),
    in_line("no-kernel", "NotAKernel", LAUNCH, "tawa.autotune(configs=[], key=[])(print)"),
    in_line("given-twice", "GivenTwice", LAUNCH + 'tuned = tawa.autotune(configs=[tawa.Config({"BLOCK": 64})], key=[])(kernel)\n', "tuned[(2,)](x, 256, BLOCK=64)"),
    in_line("matrices", "SizesDoNotMatch", LAUNCH + "from tawa.kernels.gemm import matmul\n", "matmul(x.reshape(16, 16), x.reshape(8, 32))"),
    in_line("axon-no-text", "NotAProgram", AXON, "axon.load(None)"),
    in_line("cuppl-no-text", "NotAProgram", CUPPL, "cuppl.model([1.0, 2.0])"),
    in_line("axon-file", "ProgramNotFound", AXON + "from pathlib import Path\n", 'axon.load(Path("net.ax"))'),
    in_line("axon-module", "FunctionNotChosen", AXON, 'axon.compile(axon.load("def f x = x"))'),
    in_model("axon-path", "ProgramSyntaxError", AXON, 'axon.load("net.ax")', "net.ax"),
    in_model("axon-contract", "ContractViolation", AXON + '@axon.contract("f32[n] -> f32[n]")\ndef f(x):\n    return x\n', "f(np.ones(3))", "v", advice=False),
    in_model("axon-syntax", "ProgramSyntaxError", AXON, 'axon.load("def f x = x +")', "", advice=False),
    in_model("axon-name", "UnboundName", AXON, 'axon.load("def f x = y")', "y"),
    in_model("axon-shapes", "ShapeMismatch", AXON, 'axon.load("def f (a: f32[2, 3]) (b: f32[2, 3]) = matmul a b")', "b"),
    in_model("axon-call", "ContractViolation", AXON + 'f = axon.load("def f (a: f32[2, 3]) = a + a")["f"]\n', "f(np.ones((3, 2), np.float32))", "f"),
    in_line("axon-function", "NoFunction", AXON, 'axon.load("def f x = x")["g"]'),
    in_model("cuppl-syntax", "ProgramSyntaxError", CUPPL, 'cuppl.model("def main () = let x = 1")', ""),
    in_model("cuppl-types", "TypesDisagree", CUPPL, 'cuppl.model("def main () = flip 0.5 + 1")', "+", advice=False),
    in_line("cuppl-setting", "BadSetting", CUPPL, 'cuppl.model("def main () = flip 0.5").smc(particles=0)'),
    in_line("cuppl-data", "InputMismatch", CUPPL, 'cuppl.model("input n : int def main () = n").smc(10)'),
    in_model("cuppl-main", "NoMain", CUPPL, 'cuppl.model("def f x = x").smc(10)', "d"),
    in_command("command-file", "KernelFileNotFound", "run", "nowhere.py:f"),
    in_command("command-kernel", "KernelNotFound", "run", "kernels.py:f"),
    in_command("command-example", "NoExample", "run", "kernels.py:scale"),
    in_command("command-option", "UnknownOption", "compile", "kernels.py:scale", "--option", "num_stage=3"),
    in_command("command-type", "BadArgumentType", "compile", "kernels.py:scale", "--arg", "x=tensor:half"),
)  # fmt: skip
