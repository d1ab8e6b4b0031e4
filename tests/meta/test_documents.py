"""The documents do what they say.

Code blocks of README.md and docs/ are executed, in order, in a folder that holds links to the
repository's files (`scripts/documents.py` says which, and how). Recorded outputs are compared;
`--update` rewrites them.
"""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))
from documents import FENCE, blocks, check  # noqa: E402

WRITTEN_BY_TESTS = ROOT / "docs" / "errors.md"  # see test_error_index.py
DOCUMENTS = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path != WRITTEN_BY_TESTS
]


def furnish(folder: Path) -> Path:
    """Fill `folder` with links to the repository's files and return it."""
    for path in ROOT.iterdir():
        if not path.name.startswith("."):
            (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # PyTorch's own compiler
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_document(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    monkeypatch.chdir(furnish(tmp_path))
    found, updated = check(path.read_text(), tmp_path)
    if request.config.getoption("--update"):
        path.write_text(updated)
        return
    assert found == [], "\n".join(found)


def test_links_lead_somewhere():
    broken = []
    for path in DOCUMENTS:
        prose = re.sub(r"`[^`\n]+`", "", FENCE.sub("", path.read_text()))
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
            if not (path.parent / target).exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}")
    assert broken == []


def test_no_place_of_the_machine_that_ran_them_is_recorded():
    places = [f"{Path.home()}/", str(ROOT), "/pytest-of-"]
    found = [path.name for path in DOCUMENTS if any(place in path.read_text() for place in places)]
    assert found == []


def test_every_document_can_be_found_from_the_readme():
    linked: set[Path] = set()
    new = {ROOT / "README.md"}
    while new:
        path = new.pop()
        linked.add(path)
        targets = re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", FENCE.sub("", path.read_text()))
        new |= {(path.parent / target).resolve() for target in targets} - linked
    assert {*DOCUMENTS, WRITTEN_BY_TESTS} - linked == set()


def test_tables_are_made_of_the_benchmarks_rows():
    tables = runpy.run_path(str(ROOT / "benchmarks" / "tables.py"), run_name="tables")
    stale = [
        path.relative_to(ROOT).as_posix()
        for path in DOCUMENTS
        if tables["filled"](path.read_text(), tables["RESULTS"]) != path.read_text()
    ]
    assert stale == [], "run `make docs`"


def test_plots_are_drawn_of_the_benchmarks_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    plots = runpy.run_path(str(ROOT / "benchmarks" / "plots.py"), run_name="plots")
    drawn = plots["drawn"](plots["RESULTS"])
    kept = {path.name: path.read_text() for path in plots["DRAWN"].glob("*.svg")}
    stale = [name for name, text in drawn.items() if kept.get(name) != text]
    stale += sorted(kept.keys() - drawn.keys())
    for path in DOCUMENTS:
        text = path.read_text()
        if plots["filled"](text, path, plots["RESULTS"]) != text:
            stale.append(path.relative_to(ROOT).as_posix())
    assert stale == [], "run `make docs`"


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {
        target for path in DOCUMENTS for target in re.findall(r"\bmake ([a-z-]+)", _code(path))
    }
    assert {"demo", "test"} <= named <= targets


def _code(path: Path) -> str:
    """What stands in code blocks and between backquotes in a document."""
    text = path.read_text()
    return "\n".join([block.text for block in blocks(text)] + re.findall(r"`([^`\n]+)`", text))


# The check is seen to fail.


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ("```python\nprint(1 + 1)\n```\n```text\n2\n```\n", []),
        ("```python\nprint(1 + 1)\n```\n```text\n3\n```\n", ["line 4: prints\n2\n"]),
        ("```python\nx = 4\n```\n\n```python\nprint(x)\n```\n```text\n4\n```\n", []),
        ("```console\n$ echo a; echo b\na\nb\n```\n", []),
        ("```console\n$ echo a\nc\n```\n", ["line 1: prints\n$ echo a\na\n"]),
        ("```python kernel.py\nx = 1\n```\n```console\n$ cat kernel.py\nx = 1\n```\n", []),
        ("<!-- not run: shown -->\n```python\nraise SystemExit\n```\n", []),
        ("<!-- needs nowhere -->\n```python\nraise SystemExit\n```\n", []),
        (
            "<!-- needs numpy -->\n```python\nprint(1)\n```\n```text\n2\n```\n",
            ["line 5: prints\n1\n"],
        ),
        ("```console\n$ seq 9\n1\n...\n9\n```\n", []),
        ("```console\n$ echo took 12 ms\ntook ... ms\n```\n", []),
    ],
)
def test_differences_are_found(document: str, found: list[str], tmp_path: Path):
    assert check(document, tmp_path)[0] == found


def test_updating_makes_it_right(tmp_path: Path):
    stale = "A\n```python\nprint(5)\n```\n```text\n6\n```\nB\n```console\n$ echo a\n```\nC\n"
    assert check(check(stale, tmp_path)[1], tmp_path)[0] == []


def test_our_errors_are_shown_as_they_are_rendered(tmp_path: Path):
    document = (
        "```python\nfrom tawa.base.knobs import BadKnob\nraise BadKnob('no')\n```\n"
        "```text\nerror[BadKnob]: no\n```\n"
    )
    assert check(document, tmp_path)[0] == []


@pytest.mark.parametrize(
    "document",
    ["```console\n$ false\n```\n", "```python\nprint(1)\n```\n", "```python\n1/0\n```\n"],
)
def test_what_goes_wrong_unseen_is_an_error(document: str, tmp_path: Path):
    with pytest.raises((AssertionError, ZeroDivisionError)):
        check(document, tmp_path)
