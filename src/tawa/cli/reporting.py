"""`tawa report`: what the compiler made of a kernel, as one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tawa.base.errors import TawaError
from tawa.cli.compile import CompileCommand
from tawa.cli.kernel_file import EXAMPLE_PREFIX, FoundKernel
from tawa.runtime.launch import grid_sizes

if TYPE_CHECKING:
    from tawa.cli.report.launch import Launch
    from tawa.cli.report.model import Report
    from tawa.cli.report.timeline import Timeline
    from tawa.driver.compiled import Compiled
    from tawa.driver.prediction.explanation import Explanation
    from tawa.runtime.recorded import Launch as Recorded


class BadLaunchExpression(TawaError):
    """The expression given to `--launch` can't be evaluated."""

    explanation = (
        "`--launch` takes a Python expression that launches the kernel, such as a call of a "
        "function of the kernel's file: `--launch 'launch(np.empty((8192, 8192), np.float16), "
        "...)'`. It sees the names of that file. Nothing is run, so arrays need no contents."
    )
    example = """
from pathlib import Path

from tawa.cli.reporting import LaunchCommand

Path("kernels.py").write_text("import tawa\\n@tawa.jit\\ndef scale(x): pass\\n")
LaunchCommand("kernels.py:scale", expression="scale[(1,)](x)").launch()
"""


class OutputNotWritable(TawaError):
    """The file that a command was to write can't be written."""

    explanation = "The folder of the file given with `-o` has to exist and to be writable."
    example = """
from pathlib import Path

from tawa.cli.reporting import write_file

write_file(Path("no/such/folder/report.html"), b"")
"""


class NotMeasured(TawaError):
    """A measured timeline was asked for, but the kernel ran in the simulator or not at all."""

    explanation = (
        "`--measure` runs the kernel's example and records what its warp groups do. That needs an "
        "example (or `--launch`) with arrays on a GPU, such as PyTorch's or CuPy's. NumPy's "
        "arrays run in the simulator, and its times are the predicted ones."
    )
    example = """
from pathlib import Path

from tawa.cli.reporting import LaunchCommand

source = "import tawa, numpy\\n@tawa.jit\\ndef scale(x): pass\\n"
source += "def example_scale(): scale[(1,)](numpy.zeros(4, numpy.float32))\\n"
Path("kernels.py").write_text(source)
LaunchCommand("kernels.py:scale").recorded()
"""


@dataclass
class LaunchCommand:
    """A kernel and one launch of it: the one of its example, or of an expression."""

    where: str
    types: list[str] = field(default_factory=list[str])
    constants: list[str] = field(default_factory=list[str])
    options: list[str] = field(default_factory=list[str])
    expression: str | None = None

    def __post_init__(self) -> None:
        self.command = CompileCommand(self.where, self.types, self.constants, self.options)
        if self.expression is not None:
            name = EXAMPLE_PREFIX + self.found.name
            setattr(self.found.module, name, _launcher(self.expression, self.found.module))

    @property
    def found(self) -> FoundKernel:
        """The kernel."""
        return self.command.found

    def compile(self) -> Compiled:
        """Compile for the launch."""
        return self.command.compile()

    def launch(self) -> Launch:
        """What the example launches the kernel with. Raises `NoExample`, `NothingLaunched`."""
        from tawa.cli.report.launch import Launch

        record = self.found.recorded_launch()
        named = {**record.named(self.found.kernel), **self.command.request().constants}
        grid = record.grid(named) if callable(record.grid) else record.grid
        return Launch.of(grid_sizes(grid), named)

    def explanation(self, clock_ghz: float | None) -> Explanation:
        """Why the launch takes its time."""
        record, more = self.found.recorded_launch(), self.command.changes()
        given = {"grid": record.grid, "clock_ghz": clock_ghz, **record.kwargs, **more}
        return self.found.kernel.explain(*record.args, **given)

    def recorded(self) -> Recorded:
        """What the first CTA of the example does on a GPU. Raises `NotMeasured`."""
        from tawa.runtime.timeline import Timeline

        with Timeline(ctas=1) as recorder:
            self.found.example()
        own = [found for found in recorder.launches if found.kernel == self.found.kernel.__name__]
        if not own or own[-1].simulated:
            raise NotMeasured(
                f"no launch of `{self.found.name}` was measured",
                expected="an example that launches it on arrays of a GPU",
                found="a launch on NumPy arrays, in the simulator" if own else "no launch",
                hint="leave out --measure for the predicted timeline",
            )
        return own[-1]


def _launcher(expression: str, module: ModuleType) -> Callable[[], Any]:
    """A function that evaluates the expression with the names of the kernel's file."""
    names: dict[str, Any] = module.__dict__

    def launch() -> Any:
        try:
            return eval(expression, names)  # the user's own words, on the user's machine
        except TawaError:
            raise
        except Exception as error:
            raise BadLaunchExpression(
                f"`--launch {expression}` fails",
                expected="an expression that launches the kernel with the names of its file",
                found=f"{type(error).__name__}: {error}",
            ) from error

    return launch


def write_report(
    command: LaunchCommand, output: Path | None, clock_ghz: float | None, measure: bool = False
) -> Path:
    """Write the page of a kernel and return its path (by default `NAME.html`).

    With `measure`, the example is run on a GPU, and its timeline stands below the predicted one.
    """
    from tawa.cli.report.page import html
    from tawa.cli.report.timeline import timeline

    path = output or Path(f"{command.found.name}.html")
    measured = None
    if measure:
        recorded = command.recorded()
        measured = timeline("measured", recorded.intervals(), recorded.clock_ghz)
    write_file(path, html(report_of(command, clock_ghz, measured)).encode())
    return path


def report_of(
    command: LaunchCommand, clock_ghz: float | None, measured: Timeline | None = None
) -> Report:
    """All that is to be said of a kernel and its launch."""
    from tawa.cli.report.model import build
    from tawa.driver.progress import progress

    compiled = command.compile()
    launch = None
    if not command.types and command.found.has_example:
        launch = command.launch()
    with progress(f"reporting on {command.found.name}"):
        request = command.command.request()
        source = command.found.kernel.source
        begin = source.file, source.first_line
        return build(compiled, begin, request, launch, clock_ghz=clock_ghz, measured=measured)


def against_of(command: LaunchCommand, texts: Sequence[str]) -> LaunchCommand:
    """What a kernel is to be compared with: another kernel, other options, or both."""
    kernels = [text for text in texts if ".py" in text.partition(":")[0] and "=" not in text]
    options = [text for text in texts if text not in kernels]
    where = kernels[-1] if kernels else command.where
    own = [] if kernels else [command.types, command.constants]
    types, constants = own or ([], [])
    expression = None if kernels else command.expression
    return LaunchCommand(where, types, constants, [*command.options, *options], expression)


def write_difference(
    one: LaunchCommand, other: LaunchCommand, output: Path | None, clock_ghz: float | None
) -> Path:
    """Write the page of what differs between two kernels; returns its path."""
    from tawa.cli.report.page import difference_html

    names = _told_apart(one, other)
    path = output or Path(f"{one.found.name}-against-{other.found.name}.html")
    reports = report_of(one, clock_ghz), report_of(other, clock_ghz)
    write_file(path, difference_html(*reports, names).encode())
    return path


def _told_apart(one: LaunchCommand, other: LaunchCommand) -> tuple[str, str]:
    """Short names for two kernels: their own, with the options that only one of them has."""
    more = [option for option in other.options if option not in one.options]
    left, right = one.found.name, " ".join([other.found.name, *more])
    return (left, right) if left != right else (f"{left} (1)", f"{right} (2)")


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole. Raises `OutputNotWritable`."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise OutputNotWritable(
            f"{path} can't be written", found=error.strerror or str(error), hint="see -o"
        ) from error
