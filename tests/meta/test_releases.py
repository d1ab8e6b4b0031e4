"""What a release needs: a changelog with the version in it, and workflows that name what there is."""

import re
import sys
from pathlib import Path

import tawa

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))
from check_release import notes_of, version_of  # noqa: E402

CHANGES = """# Changes

## Unreleased

- new

## 0.2.0 (2030-01-01)

- other

## 0.1.0

First.
"""


def test_notes_are_the_versions_part():
    assert notes_of("0.2.0", CHANGES) == "- other"
    assert notes_of("0.1.0", CHANGES) == "First."
    assert notes_of("0.3.0", CHANGES) is None


def test_the_version_is_in_the_changelog():
    assert version_of((ROOT / "src/tawa/__init__.py").read_text()) == tawa.__version__
    assert notes_of(tawa.__version__, (ROOT / "CHANGELOG.md").read_text())


def test_workflows_run_what_there_is():
    texts = [path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")]
    assert len(texts) == 3
    named = {name for text in texts for name in re.findall(r"(?:scripts|\.ci)/[\w.]+", text)}
    assert named == {"scripts/check_wheel.py", "scripts/check_release.py", ".ci/run"}
    assert all((ROOT / name).is_file() for name in named)
    oldest = re.search(r'requires-python = ">=(3\.\d+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert f'python: ["{oldest}", ' in "".join(texts)
