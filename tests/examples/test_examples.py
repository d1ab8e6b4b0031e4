"""Every example runs, and is on the page of the examples with its picture."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from tawa.cli.run import relative_error

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
sys.path += [str(ROOT / "scripts"), str(EXAMPLES), str(EXAMPLES / "tasks")]
import example_pages  # noqa: E402

KERNELS = [
    (path, name)
    for folder in (EXAMPLES, EXAMPLES / "tasks")
    for path in sorted(folder.glob("*.py"))
    for name in example_pages.launched(path)
]
PARTS = {"demo.py"}
"""Files that are no example by themselves: `make demo` runs it."""


@pytest.mark.parametrize(("path", "name"), KERNELS, ids=lambda part: getattr(part, "stem", part))
def test_a_kernel_computes_what_its_example_expects(path: Path, name: str):
    module = importlib.import_module(path.stem)
    results = getattr(module, f"example_{name}")()
    assert results, "nothing is compared"
    for result, expected in results.values():
        assert not np.isnan(result.astype(np.float64)).any()
        assert relative_error(result, expected) < 1e-2


def test_every_file_is_an_example():
    shown = {path for section in example_pages.sections() for path in section.files}
    files = {path for suffix in ("py", "ax", "ppl") for path in EXAMPLES.rglob(f"*.{suffix}")}
    models = {path.with_suffix("") for path in files if path.suffix == ".ppl"}
    left = {path for path in files - shown if path.with_suffix("") not in models}
    assert {path.name for path in left} == PARTS


def test_the_page_is_made_of_the_examples():
    assert example_pages.PAGE.read_text() == example_pages.page(), "run scripts/example_pages.py"


def test_every_example_has_a_picture():
    expected = {
        example_pages.picture(path).name
        for section in example_pages.sections()
        for path in section.files
        if path.stem not in example_pages.UNDRAWN
    }
    drawn = {path.name for path in example_pages.PICTURES.glob("*.svg")}
    assert drawn == expected, "run scripts/example_pages.py --draw"
