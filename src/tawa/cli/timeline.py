"""`tawa timeline`: a kernel's predicted (or measured) timeline as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tawa.base.errors import TawaError
from tawa.cli.reporting import LaunchCommand, write_file

if TYPE_CHECKING:
    from tawa.cli.report.timeline import Timeline

SUFFIXES = (".json", ".svg", ".png")


class UnknownPictureFormat(TawaError):
    """The file that a timeline is to be written to has no known suffix."""

    explanation = (
        "A timeline is written as a trace for ui.perfetto.dev (`.json`), as a drawing (`.svg`) or "
        "as an image (`.png`), by the suffix of the file given with `-o`."
    )
    example = """
from pathlib import Path

from tawa.cli.timeline import format_of

format_of(Path("timeline.pdf"))
"""


def format_of(path: Path) -> str:
    """The suffix of the file to write. Raises `UnknownPictureFormat`."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UnknownPictureFormat(
            f"a timeline can't be written as {path.name}",
            expected=f"a file that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}",
            found=f"`{suffix}`" if suffix else "no suffix",
        )
    return suffix


def write_timeline(
    command: LaunchCommand, output: Path, clock_ghz: float | None, measure: bool = False
) -> str:
    """Write the timeline of a launch; a line that says what it is.

    With `measure`, the example is run on a GPU: a picture has both timelines, a trace has the
    measured one.
    """
    suffix = format_of(output)
    from tawa.cli.report.model import predicted_timeline
    from tawa.cli.report.timeline import timeline
    from tawa.driver.progress import progress
    from tawa.simulate import perfetto

    compiled = command.compile()
    launch = command.launch()
    with progress(f"predicting {command.found.name}"):
        prediction, found = predicted_timeline(compiled, launch, clock_ghz)
    shown = [found]
    clock, kind = prediction.clock_ghz, "predicted"
    said = f"predicted {prediction.kernel_seconds * 1e6:.2f} us at {clock:.3f} GHz"
    intervals = prediction.first.timeline if prediction.first is not None else []
    if measure:
        recorded = command.recorded()
        intervals, clock, kind = recorded.intervals(), recorded.clock_ghz, "measured"
        shown.append(timeline(kind, intervals, clock))
        said += f", measured {recorded.cycles / clock / 1e3:.2f} us at {clock:.3f} GHz"
    if suffix == ".json":
        trace = perfetto(intervals, clock, f"{compiled.name} ({kind})")
        write_file(output, trace.encode())
    else:
        write_file(output, drawn(f"{compiled.name}: {said}", shown, suffix))
    return said


def drawn(title: str, timelines: Sequence[Timeline], suffix: str) -> bytes:
    """The picture of timelines above each other, as `.svg` or `.png`. Raises `PillowMissing`."""
    from tawa.cli.report.picture import picture, png, svg

    shown = picture(title, timelines)
    return png(shown) if suffix == ".png" else svg(shown).encode()
