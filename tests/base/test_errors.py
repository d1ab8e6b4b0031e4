from pathlib import Path

import pytest

from tawa.base.errors import Note, TawaError, explain
from tawa.base.spans import Span


class TiltedTile(TawaError):
    """A tile leans."""

    explanation = "Tiles stand upright."
    example = "raise TiltedTile('leans')\n"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "kernel.py"
    path.write_text(
        "def kernel(a, b):\n"
        "    acc = dot(a, b)\n"
        "\tx = 'größe 大' + y\n"
        "    call(\n"
        "        first,\n"
        "        second,\n"
        "        third,\n"
        "        fourth)\n"
    )
    monkeypatch.chdir(tmp_path)
    return str(path)


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_shows_the_range_and_both_sides_of_the_conflict(source: str):
    error = TiltedTile(
        "`dot` of a 64x32 tile by a 64x16 tile",
        span=Span(source, 2, 10, 2, 19),
        expected="K = 32 rows in `b`",
        found="64 rows",
        hint="transpose `a`:\ntl.trans(a)",
        notes=["once", Note("called here", Span(source, 1, 0, 1, 3))],
    )
    assert lines(error.render()) == [
        "error[TiltedTile]: `dot` of a 64x32 tile by a 64x16 tile",
        "  --> kernel.py:2:11",
        "   |",
        " 2 |     acc = dot(a, b)",
        "   |           ^^^^^^^^^",
        "  expected: K = 32 rows in `b`",
        "  found: 64 rows",
        "  help: transpose `a`:",
        "        tl.trans(a)",
        "  note: once",
        "  note: called here",
        "  --> kernel.py:1:1",
        " 1 | def kernel(a, b):",
        "   | ^^^",
    ]
    assert error.render() == f"error[TiltedTile]: {error}"


def test_a_note_on_a_line_that_is_shown_quotes_it(source: str):
    error = TiltedTile("no", span=Span(source, 2, 10, 2, 13))
    error.with_note("made of", Span(source, 2, 14, 2, 15))
    assert lines(error.render())[-1] == "  note: made of (line 2, column 15: `a`)"


def test_carets_stand_below_tabs_and_wide_characters(source: str):
    text = "\tx = 'größe 大' + y"
    shown = lines(str(TiltedTile("m", span=Span(source, 3, text.index("大"), 3, len(text)))))
    # The tab is kept, so that the carets stand below the text whatever the tab's width;
    # the ideograph takes two columns.
    assert shown[-1] == "   | \t" + " " * 11 + "^^" + "^" * 5


def test_a_long_range_is_cut(source: str):
    assert lines(str(TiltedTile("m", span=Span(source, 4, 4, 8, 15)))) == [
        "m",
        "  --> kernel.py:4:5",
        "   |",
        " 4 |     call(",
        "   |     ^^^^^",
        " . | (to line 8)",
    ]


@pytest.mark.parametrize(("last", "shown"), [(6, 8), (7, 5)])
def test_a_range_of_more_than_three_lines_is_cut(source: str, last: int, shown: int):
    """With a traceback of three lines and all of an error's labels, that is 15 lines at most."""
    error = TiltedTile("m", span=Span(source, 4, 4, last, 9))
    assert len(lines(str(error))) == 1 + shown


def test_a_range_of_two_lines_ends_where_it_ends(source: str):
    shown = lines(str(TiltedTile("m", span=Span(source, 4, 4, 5, 13))))
    assert shown[-1] == "   |         ^^^^^"


def test_without_source():
    assert str(TiltedTile("m")) == "m"
    assert str(TiltedTile("m", hint="h")) == "m\n  help: h"
    span = Span("<stdin>", 3, 4)
    assert str(TiltedTile("m", span=span)) == "m\n  --> <stdin>:3:5"


def test_a_file_outside_the_working_directory_keeps_its_path(source: str, tmp_path: Path):
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(inner)
        assert f"--> {source}:1:1" in str(TiltedTile("m", span=Span(source, 1)))


def test_a_span_past_the_end_of_its_line_still_shows_a_caret(source: str):
    assert lines(str(TiltedTile("m", span=Span(source, 1, 99))))[-1].endswith("^")


def test_notes_can_be_added_on_the_way():
    error = TiltedTile("m").with_note("in the call of `f`")
    assert str(error) == "m\n  note: in the call of `f`"


def test_explain():
    assert explain("TiltedTile") == (
        "## TiltedTile\n\nA tile leans.\n\nTiles stand upright.\n\n"
        "```python\nraise TiltedTile('leans')\n```"
    )
    assert explain("NoSuchError") is None


def test_a_name_stands_for_one_message():
    same_package = TiltedTile.__module__.partition(".")[0] + ".elsewhere"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TawaError, "clashes", [])
        other = type("TiltedTile", (TawaError,), {"__module__": same_package})
        assert TawaError.clashes == [(TiltedTile, other)]
    type("TiltedTile", (TawaError,), {"__module__": "a_users_own"})
    assert TawaError.registry["TiltedTile"] is TiltedTile


def test_groups_are_not_messages():
    class AllTilted(TawaError, group=True):
        """Groups."""

    assert "AllTilted" not in TawaError.registry
    assert "TiltedTile" in TawaError.registry
