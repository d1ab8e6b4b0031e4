"""The page of the examples, and a picture of each.

    python scripts/example_pages.py             # rewrite docs/examples.md
    python scripts/example_pages.py --draw      # and draw all pictures anew
    python scripts/example_pages.py --draw sir  # or some

Pictures are what the tools make: the predicted timeline of a kernel (`tawa timeline`), the events
of a task program (`program.svg()`), the graph of an Axon definition (`tawa axon draw`), what a
CuPPL program says of its first result.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "examples.md"
PICTURES = ROOT / "docs" / "pictures"

sys.path += [str(ROOT / "benchmarks"), str(EXAMPLES), str(EXAMPLES / "tasks")]
sys.path.append(str(EXAMPLES / "cuppl"))

UNDRAWN = {
    "waiting": "It has no predicted timeline: how long a program waits depends on the others.",
    "devices_tasks": "It has no picture: it compiles a program for each device separately.",
    "stencil_devices_tasks": "It has no picture, as `devices_tasks.py` has none.",
}
"""Examples without a picture, and why."""

HEAD = """# Examples

Every kernel and model of the repository, with a picture that its own tool drew. The tests run all
of them.
"""


@dataclass(frozen=True)
class Section:
    """Examples of a kind: their files, the command that runs one, and how one is drawn."""

    title: str
    says: str
    files: list[Path]
    command: Callable[[Path], str]
    draw: Callable[[Path, Path], None]


def main() -> None:
    """Write the page, and with `--draw` the pictures."""
    if "--draw" in sys.argv:
        wanted = sys.argv[sys.argv.index("--draw") + 1 :]
        PICTURES.mkdir(exist_ok=True)
        for section in sections():
            for path in section.files:
                if path.stem not in UNDRAWN and (not wanted or path.stem in wanted):
                    section.draw(path, picture(path))
    PAGE.write_text(page())


def page() -> str:
    """The Markdown of the page."""
    parts = [HEAD]
    for section in sections():
        parts.append(f"## {section.title}\n\n{section.says}\n")
        for path in section.files:
            place = path.relative_to(ROOT).as_posix()
            shown = UNDRAWN.get(path.stem) or (
                f"![{path.name}, drawn by its tool]"
                f"({picture(path).relative_to(PAGE.parent).as_posix()})"
            )
            parts.append(
                f"### {path.name}\n\n{purpose(path)}\n\n"
                f"[The source](../{place}); `{section.command(path)}`\n\n"
                f"{shown}\n"
            )
    return "\n".join(parts)


def sections() -> list[Section]:
    """The kinds of examples, in the order of the page."""
    kernels = [path for path in sorted(EXAMPLES.glob("*.py")) if path.name != "demo.py"]
    return [
        Section(
            "Tile kernels",
            "The picture is the predicted timeline of one CTA; [reports](report.md) explain it.",
            kernels,
            lambda path: f"tawa run examples/{path.name}:{launched(path)[0]}",
            draw_timeline,
        ),
        Section(
            "Tasks and mappings",
            "The picture shows what waits for what; the page on [tasks](tasks.md) explains it.",
            sorted((EXAMPLES / "tasks").glob("*.py")),
            lambda path: f"tawa tasks run examples/tasks/{path.name}:{launched(path)[0]}",
            draw_events,
        ),
        Section(
            "Axon",
            "The picture is the graph of one definition, with the inferred type on every edge "
            "([Axon](axon.md)).",
            sorted((EXAMPLES / "axon").glob("*.ax")),
            lambda path: f"tawa axon infer examples/axon/{path.name}",
            draw_graph,
        ),
        Section(
            "CuPPL",
            "The picture is the distribution of the first result ([CuPPL](cuppl.md)).",
            sorted((EXAMPLES / "cuppl").glob("*.ppl")),
            lambda path: f"tawa cuppl check examples/cuppl/{path.name}",
            draw_posterior,
        ),
    ]


def picture(path: Path) -> Path:
    """The picture of an example."""
    name = path.relative_to(EXAMPLES).with_suffix("").as_posix().replace("/", "-")
    return PICTURES / f"{name}.svg"


def launched(path: Path) -> list[str]:
    """The kernels of a file that have an example."""
    return re.findall(r"^def example_(\w+)\(", path.read_text(), re.M)


def purpose(path: Path) -> str:
    """The first paragraph of a file."""
    if path.suffix == ".py":
        words = ast.get_docstring(ast.parse(path.read_text())) or ""
        return " ".join(words.split("\n\n")[0].split())
    lines = takewhile(lambda line: re.match(r"# |## ", line), path.read_text().splitlines())
    return " ".join(line.lstrip("# ") for line in lines)


def tawa(*arguments: str) -> None:
    """Run a command of Tawa's from the top of the repository."""
    subprocess.run([sys.executable, "-m", "tawa", *arguments], cwd=ROOT, check=True)


def draw_timeline(path: Path, to: Path) -> None:
    """The predicted timeline of a file's first kernel."""
    tawa("timeline", f"{path.relative_to(ROOT)}:{launched(path)[0]}", "-o", str(to))


def draw_events(path: Path, to: Path) -> None:
    """The events of the program that a file's example launches."""
    from tawa.tasks import RunnableTask

    module = __import__(path.stem)
    programs: list[Any] = []

    def compile_instead(self: Any, *args: Any, **keywords: Any) -> None:
        programs.append(self.compile(*args, **keywords))

    before = RunnableTask.__call__
    RunnableTask.__call__ = compile_instead  # type: ignore[method-assign]
    try:
        getattr(module, f"example_{launched(path)[0]}")()
    finally:
        RunnableTask.__call__ = before  # type: ignore[method-assign]
    to.write_text(programs[0].svg())


def draw_graph(path: Path, to: Path) -> None:
    """The graph of the definition that has most nodes."""
    from tawa.axon.tools.draw import svg
    from tawa.axon.tools.graph import function_graph
    from tawa.axon.typing.language import axon

    checked = axon().check_file(path)
    names = [definition.name for definition in checked.syntax.definitions()]
    graphs = [function_graph(checked, name) for name in names]
    to.write_text(svg(max(graphs, key=lambda graph: len(graph.nodes))))


def draw_posterior(path: Path, to: Path) -> None:
    """A histogram of the first result under the example's data."""
    import numpy as np
    from drawing import Bars, draw

    from tawa import cuppl

    data = dict(_posterior_data())[path.stem]
    posterior = cuppl.load(path).smc(20_000, data=data, seed=1)
    name = next(iter(posterior.columns))
    values = np.asarray(posterior[name], dtype=float)
    counts, edges = np.histogram(values, bins=16, weights=posterior.weights)
    shares = 100 * counts / counts.sum()
    bars = [(f"from {edge:.3g}", float(share)) for edge, share in zip(edges, shares, strict=False)]
    plot = Bars(f"{path.name}: {name}", "per cent of the posterior", {"": bars})
    to.write_text(draw(plot, "light"))


def _posterior_data() -> Iterator[tuple[str, dict[str, Any]]]:
    """The data that each CuPPL program is given."""
    import crbd

    tree = crbd.read_tree(EXAMPLES / "cuppl" / "data" / "alcedinidae.phyjson")
    yield "crbd", {"tree": tree, "rho": crbd.RHO}
    yield "crbd_branches", {"branches": crbd.branches(tree), "rho": crbd.RHO}
    yield "sir", {"cases": [3, 5, 8, 14, 20, 27, 31, 30, 28, 22], "population": 1000}


if __name__ == "__main__":
    main()
