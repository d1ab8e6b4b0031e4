"""Every notebook runs, and prints what it was kept with."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))
import notebooks  # noqa: E402

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_five():
    assert len(NOTEBOOKS) == 5
    index = (ROOT / "docs" / "notebooks" / "index.md").read_text()
    assert [path.name for path in NOTEBOOKS if f"({path.name})" not in index] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_was_kept_with(path: Path, request: pytest.FixtureRequest):
    kept = path.read_text()
    run = notebooks.text_of(notebooks.with_outputs(json.loads(kept)))
    if request.config.getoption("--update"):
        path.write_text(run)
    else:
        assert run == kept, "run `make docs`"


def test_a_cell_that_fails_is_seen():
    cell = {"cell_type": "code", "source": ["1 / 0"]}
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        notebooks.with_outputs({"cells": [cell]})
