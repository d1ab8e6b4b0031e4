"""The page in a real browser: what it asks for, what it shows, and what a click does."""

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tawa.cli.reporting import LaunchCommand, against_of, write_difference

EXAMPLES = Path(__file__).parents[3] / "examples"

WIDE = {"width": 1440, "height": 900}

CONTRAST = (Path(__file__).parents[2] / "site" / "contrast.js").read_text()
"""A function that lists texts whose contrast is below what WCAG 2.2 calls AA."""
BARS = """() => Object.entries({ copy: "card", tensor: "card", work: "card", store: "card", wait: "ink" })
  .forEach(([bar, text]) => document.body.insertAdjacentHTML(
    "beforeend", `<b style="color: var(--${text}); background: var(--${bar})">${bar}</b>`))"""
"""Texts in the colours in which the timeline, which is a canvas, draws its bars' names."""


SIDEWAYS = """() => [...document.querySelectorAll(".card")]
  .filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.querySelector("h2").textContent)"""
"""A function that lists the cards that have to be scrolled sideways to be read."""


@pytest.fixture
def opened(pages: Callable[[str], Path], browser: Any) -> Iterator[Callable[..., Any]]:
    """Open the page of an example; at the end it must have been silent and asked nobody."""
    requests: list[str] = []
    said: list[str] = []
    contexts: list[Any] = []

    def open_(where: str, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": WIDE, "offline": True, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(pages(where).as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in requests if url.startswith("file:")]) == len(contexts)


def lines(page: Any, pane: str, kind: str) -> list[str]:
    """The texts of a pane's lines of a class."""
    found = page.locator(f".pane[data-name={pane}] .l.{kind} > span").all_text_contents()
    return [text.strip() for text in found]


def click(page: Any, pane: str, text: str, number: int = 0) -> None:
    """Click the line of a pane that has a text."""
    page.locator(f".pane[data-name={pane}] .l", has_text=text).nth(number).click()


@pytest.mark.parametrize("where", ["gemm.py:gemm", "attention.py:attention", "softmax.py:softmax"])
def test_all_panes_are_filled(opened: Callable[..., Any], where: str):
    page = opened(where)
    name = where.partition(":")[2]
    assert page.title() == f"{name} · Tawa"
    expected = {
        "source": f"def {name}(",
        "tile": f"func.func @{name}(",
        "aref": "aref.warp_group",
        "hopper": "hopper.role",
        "cuda": 'extern "C" __global__',
        "sass": "EXIT",
    }
    for pane, text in expected.items():
        shown = page.locator(f".pane[data-name={pane}] .lines").text_content()
        assert text in shown, pane
    assert page.locator("#timeline canvas").is_visible()
    for title in (
        "Where the time goes",
        "Shared memory",
        "Registers and occupancy",
        "Compiled for",
    ):
        assert page.locator(".card h2", has_text=title).count() == 1


def test_the_product_of_a_gemm_is_linked_with_its_instructions(opened: Callable[..., Any]):
    page = opened("gemm.py:gemm")
    click(page, "source", "acc = tl.dot(a, b.T, acc)")
    assert lines(page, "source", "strong") == ["acc = tl.dot(a, b.T, acc)"]
    assert any("tile.dot" in text for text in lines(page, "tile", "strong"))
    assert any("aref.dot_issue" in text for text in lines(page, "aref", "strong"))
    cuda = [text for text in lines(page, "cuda", "strong") if "wgmma_m64n256k16" in text]
    sass = [text for text in lines(page, "sass", "strong") if text.startswith("HGMMA.64x256x16")]
    assert len(cuda) == 4
    assert len(sass) == 4
    assert not any("UTMALDG" in text for text in lines(page, "sass", "strong"))
    assert page.locator("#chosen").text_content().startswith("gemm.py:45 → source 1, tile 2")


def test_the_linked_lines_are_scrolled_into_view(opened: Callable[..., Any]):
    page = opened("gemm.py:gemm")
    click(page, "source", "acc = tl.dot(a, b.T, acc)")
    for pane, text in (("cuda", "wgmma_m64n256k16"), ("sass", "HGMMA")):
        line = page.locator(f".pane[data-name={pane}] .l.strong", has_text=text).first
        box = line.bounding_box()
        around = page.locator(f".pane[data-name={pane}] .lines").bounding_box()
        assert around["y"] <= box["y"] <= around["y"] + around["height"] - box["height"]


def test_an_instruction_leads_back_to_the_load(opened: Callable[..., Any]):
    page = opened("gemm.py:gemm")
    click(page, "sass", "UTMALDG", 1)
    assert lines(page, "source", "strong") == ["b = b_desc.load([off_n, k * BLOCK_K])"]
    (copy,) = [text for text in lines(page, "cuda", "strong") if text.startswith("tma_load(")]
    assert "b_desc_map" in copy
    assert any("b_desc_map" in text for text in lines(page, "hopper", "strong"))
    # The other copy is of another line of the source.
    assert not any("a_desc_map" in text for text in lines(page, "cuda", "strong"))


def test_each_product_of_attention_has_its_own_instructions(opened: Callable[..., Any]):
    page = opened("attention.py:attention")
    found = []
    for text in ("scores = tl.dot(q, k.T)", "acc = tl.dot(p.to(v.dtype), v, acc)"):
        click(page, "source", text)
        chosen = page.locator(".pane[data-name=sass] .l.strong", has_text="HGMMA")
        found.append({line.get_attribute("data-n") for line in chosen.all()})
    assert all(found)
    assert not found[0] & found[1]
    total = page.locator(".pane[data-name=sass] .l", has_text="HGMMA").count()
    assert len(found[0] | found[1]) == total


def test_a_kernel_of_one_role_is_linked_too(opened: Callable[..., Any]):
    page = opened("softmax.py:softmax")
    click(page, "source", "tl.exp(")
    assert any("MUFU.EX2" in text for text in lines(page, "sass", "strong"))
    assert page.locator(".fact", has_text="roles").locator("dd").inner_text().startswith("main 4")


def test_the_timeline_zooms_and_moves(opened: Callable[..., Any]):
    page = opened("gemm.py:gemm")
    whole = page.evaluate("view.view")
    before = page.locator("#lanes").screenshot()
    page.locator("#zoom-in").click()
    start, end = page.evaluate("view.view")
    assert end - start == pytest.approx((whole[1] - whole[0]) / 2)
    assert page.locator("#lanes").screenshot() != before
    box = page.locator("#lanes").bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 10, steps=3)
    page.mouse.up()
    assert page.evaluate("view.view")[0] > start
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    assert page.evaluate("view.span()") < end - start
    page.keyboard.press("0")
    assert page.evaluate("view.view") == whole


def test_a_bar_says_what_it_is_and_leads_to_its_line(opened: Callable[..., Any]):
    page = opened("gemm.py:gemm")
    x, y = page.evaluate(
        "(() => { const b = view.bars.find((b) => b.kind === 'copy' && b.name === 'b');"
        " return [view.x((b.start + b.end) / 2), b.y + 5]; })()"
    )
    box = page.locator("#lanes").bounding_box()
    page.mouse.move(box["x"] + x, box["y"] + y)
    tip = page.locator("#tip")
    shown = tip.inner_text()
    for text in ("b\n", "copies", "hopper.tma_load", "k = 0", "a_b[0]", "gemm.py:44", "cycles"):
        assert text in shown
    page.mouse.click(box["x"] + x, box["y"] + y)
    assert lines(page, "source", "strong") == ["b = b_desc.load([off_n, k * BLOCK_K])"]
    assert any("UTMALDG" in text for text in lines(page, "sass", "strong"))


def test_it_can_be_used_with_keys_alone(opened: Callable[..., Any]):
    page = opened("gemm.py:gemm")
    page.locator(".pane[data-name=source] .lines").focus()
    page.keyboard.press("ArrowDown")
    first = lines(page, "source", "at")
    page.keyboard.press("ArrowDown")
    assert first
    assert lines(page, "source", "at") != first
    click(page, "source", "tl.dot")
    page.locator(".pane[data-name=sass] .lines").focus()
    at = page.evaluate("panes[5].lines.scrollTop")
    page.keyboard.press("p")
    assert page.evaluate("panes[5].lines.scrollTop") != at
    page.keyboard.press("Escape")
    assert lines(page, "source", "strong") == []
    assert page.locator(".pane[data-name=tile]").is_hidden()
    page.keyboard.press("2")
    assert page.locator(".pane[data-name=tile]").is_visible()
    page.locator("#lanes").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#bar-text").text_content().startswith("load · ")


def brightness(page: Any) -> float:
    red, green, blue = page.evaluate(
        "getComputedStyle(document.querySelector('.facts')).backgroundColor.match(/\\d+/g).map(Number)"
    )[:3]
    return (red + green + blue) / 3


def test_it_is_dark_where_the_system_is_and_light_where_asked(opened: Callable[..., Any]):
    page = opened("softmax.py:softmax", color_scheme="dark")
    assert brightness(page) < 60
    page.locator("#theme").click()
    assert brightness(page) > 200
    page.locator("#theme").click()
    assert brightness(page) < 60
    assert brightness(opened("softmax.py:softmax", color_scheme="light")) > 200


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_told_from_their_background(opened: Callable[..., Any], scheme: str):
    page = opened("gemm.py:gemm", color_scheme=scheme)
    for name in page.locator("#choose button[aria-pressed=false]").all_text_contents():
        page.locator("#choose button", has_text=name).click()
    click(page, "source", "acc = tl.dot(a, b.T, acc)")
    page.evaluate(BARS)
    assert page.evaluate(CONTRAST) == []


@pytest.mark.parametrize("width", [390, 820, 1280, 1920])
def test_nothing_is_wider_than_the_window(opened: Callable[..., Any], width: int):
    page = opened("attention.py:attention", viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    overlapping = page.evaluate(
        "(() => { const boxes = [...document.querySelectorAll('main > *, #cards section')]"
        ".filter((e) => e.offsetParent && !e.querySelector('section.card'))"
        ".map((e) => e.getBoundingClientRect());"
        " return boxes.some((a, i) => boxes.some((b, j) => i < j && a.left < b.right - 1 &&"
        " b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)); })()"
    )
    assert not overlapping


def test_it_is_printed_with_the_source_and_the_tables(opened: Callable[..., Any]):
    page = opened("gemm.py:gemm")
    page.emulate_media(media="print")
    assert page.locator(".pane[data-name=source]").is_visible()
    assert page.locator(".pane[data-name=sass]").is_hidden()
    assert page.locator(".card h2", has_text="Shared memory").is_visible()
    assert page.pdf()[:5] == b"%PDF-"


PHONE = {"width": 360, "height": 740}


@pytest.mark.parametrize("where", ["gemm.py:gemm", "attention.py:attention", "softmax.py:softmax"])
def test_nothing_hangs_over_on_a_phone(opened: Callable[..., Any], where: str):
    page = opened(where, viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    over = """[...document.querySelectorAll("main > *, .strip > *, .strip button, .top > *, .card")]
      .filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80))"""
    assert page.evaluate(over) == []
    assert page.evaluate(SIDEWAYS) == []
    small = """[...document.querySelectorAll(".strip button, .top button")]
      .filter((e) => e.offsetParent && e.offsetHeight < 32).map((e) => e.textContent)"""
    assert page.evaluate(small) == []
    shown = page.locator("#choose button[aria-pressed=true]").all_text_contents()
    assert shown == ["source", "SASS"]


def test_escape_closes_the_keys_and_then_chooses_nothing(opened: Callable[..., Any]):
    page = opened("gemm.py:gemm")
    click(page, "source", "acc = tl.dot(a, b.T, acc)")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()
    assert page.locator("#keys").get_attribute("aria-expanded") == "false"
    assert lines(page, "source", "strong")
    page.keyboard.press("Escape")
    assert not lines(page, "source", "strong")
    assert page.locator("#chosen").text_content().startswith("choose a line")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_saved_as_one_picture(opened: Callable[..., Any], tmp_path: Path, scheme: str):
    page = opened("gemm.py:gemm", color_scheme=scheme)
    with page.expect_download() as waited:
        page.keyboard.press("s")
    found = waited.value
    assert found.suggested_filename == "gemm.png"
    path = tmp_path / "gemm.png"
    found.save_as(path)
    picture = Image.open(path).convert("RGB")
    assert picture.width == WIDE["width"]
    assert picture.height == page.evaluate("document.body.offsetHeight")
    shot = Image.open(BytesIO(page.screenshot(full_page=True))).convert("RGB")
    assert shot.size == picture.size
    # The same in every part, but for the buttons in the corners, which are left out.
    small = [image.resize((36, 54), Image.Resampling.BOX) for image in (shot, picture)]
    far = np.abs(np.diff([np.asarray(image, np.int32) for image in small], axis=0)).max(axis=-1)
    assert (far > 24).sum() <= 12


@pytest.fixture(scope="module")
def differences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of what differs with another depth."""
    one = LaunchCommand(str(EXAMPLES / "gemm.py:gemm"))
    other = against_of(one, ["num_stages=2"])
    return write_difference(one, other, tmp_path_factory.mktemp("pages") / "differences.html", None)


@pytest.mark.parametrize("width", [360, 1440])
def test_a_page_of_differences(browser: Any, differences: Path, width: int):
    page = browser.new_context(viewport={"width": width, "height": 900}, offline=True).new_page()
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(differences.as_uri())
    assert page.locator("h1").text_content() == "gemm and gemm num_stages=2"
    assert page.evaluate("document.documentElement.scrollWidth") == width
    row = page.locator("tr.differs", has_text="option num_stages")
    assert row.locator("td").all_text_contents()[1:] == ["none", "2"]
    names = page.locator(".numbers td:first-child").all_text_contents()
    assert names.index("option num_stages") < names.index("constant BLOCK_M")
    assert str(EXAMPLES) not in page.locator(".numbers").inner_text()
    assert page.evaluate(SIDEWAYS) == []
    assert page.locator("h2", has_text="tile: the same").count() == 1
    details = page.locator("details").first
    assert not details.locator("pre").is_visible()
    details.locator("summary").click()
    assert details.locator("pre .del").count() >= 1
    assert page.evaluate(CONTRAST) == []
    assert said == []
