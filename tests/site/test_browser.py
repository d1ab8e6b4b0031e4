"""The website in a real browser: on a phone and on a desk, light and dark, by keyboard."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

PHONE, DESK = {"width": 360, "height": 780}, {"width": 1440, "height": 900}

CONTRAST = Path(__file__).with_name("contrast.js").read_text()
"""A function that lists texts whose contrast is below what WCAG 2.2 calls AA."""

WIDE = "document.scrollingElement.scrollWidth > window.innerWidth"

DEAF = """() => [...document.querySelectorAll('a, button, input, select, summary')].filter((e) => {
  const box = e.getBoundingClientRect();
  const seen = e.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  return seen && box.width && box.height && (e.tabIndex < 0 || (e.tagName === 'A' && !e.href));
}).map((e) => e.outerHTML.slice(0, 80))"""
"""What is shown to be used, and no key leads to."""


class Quiet(SimpleHTTPRequestHandler):
    """A file server that says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """A page of the site; at the end it must have been silent and asked nobody else."""
    said: list[str] = []
    contexts: list[Any] = []

    def open_(**options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{page.url}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
        page.on(
            "request",
            lambda request: (
                request.url.startswith((address, "data:", "blob:")) or said.append(request.url)
            ),
        )
        return page

    yield open_
    for context in contexts:
        context.close()
    assert said == []


def names(site: Path) -> list[str]:
    """The pages of the site, and of those that show sources, which are all alike, one."""
    found = (path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html"))
    shown = [name for name in found if not name.startswith(("source/", "404"))]
    return [*sorted(shown), "source/examples/gemm.py"]


@pytest.mark.parametrize(
    ("size", "scheme"), [(PHONE, "dark"), (DESK, "light")], ids=["phone-dark", "desk-light"]
)
def test_every_page_fits_and_can_be_read_and_used(
    opened: Callable[..., Any], site: Path, address: str, size: Any, scheme: str
):
    page = opened(viewport=size, color_scheme=scheme)
    wrong: dict[str, Any] = {}
    for name in names(site):
        page.goto(f"{address}/{name}.html", wait_until="load", timeout=90_000)
        found = page.evaluate(WIDE), page.evaluate(CONTRAST), page.evaluate(DEAF)
        if any(found):
            wrong[name] = found
    assert wrong == {}


def test_what_no_key_leads_to_is_found(opened: Callable[..., Any]):
    page = opened()
    page.set_content("<a href='#x'>a</a><a id=b>b</a><button tabindex=-1>c</button>")
    assert [html[:4] for html in page.evaluate(DEAF)] == ["<a i", "<but"]


def test_faint_texts_are_found(opened: Callable[..., Any]):
    page = opened()
    page.set_content(
        "<p style='color:#999;background:#fff'>faint</p><p>black</p>"
        "<div style='opacity:0.5'><b>half</b></div>"
    )
    assert [text for text, _ in page.evaluate(CONTRAST)] == ["faint", "half"]


def test_all_that_can_be_used_is_reached_by_keyboard(opened: Callable[..., Any], address: str):
    page = opened(viewport=DESK)
    page.goto(f"{address}/tutorials/gemm.html")
    reached: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "(() => { const e = document.activeElement; const box = e.getBoundingClientRect();"
                " return `${e.tagName} ${e.textContent.trim().slice(0, 30)}"
                " ${box.width > 0 && box.height > 0}`; })()"
            )
        )
    assert reached[0].startswith("A Skip to content")
    text = "\n".join(reached)
    for expected in ("Getting started", "Vector add", "Attention"):
        assert expected in text
    assert not [entry for entry in reached if entry.startswith("A ") and entry.endswith("false")]


STOP = """() => {
  const e = document.activeElement;
  if (e === document.body) return null;
  const seen = e.matches(".md-option") ? e.nextElementSibling : e;  // its label is what is shown
  const box = seen.getBoundingClientRect(), style = getComputedStyle(seen);
  const shown = seen.checkVisibility({ visibilityProperty: true }) && box.width && box.height
    && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  const marked = style.outlineStyle !== "none" || style.boxShadow !== "none";
  const again = e.dataset.stopped === "yes";
  e.dataset.stopped = "yes";
  return { name: `${e.tagName} ${e.className} ${e.textContent.trim().slice(0, 30)}`, shown, marked, again };
}"""
"""What has the focus: whether it is shown and marked, and whether it had the focus before."""

WALKED = "index", "getting-started", "tutorials/gemm", "launching", "reference/options"


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_tab_walks_through_what_is_shown_and_leaves(
    opened: Callable[..., Any], address: str, size: Any
):
    page = opened(viewport=size, reduced_motion="reduce")
    for name in WALKED:
        page.goto(f"{address}/{name}.html")
        stops: list[Any] = []
        for _ in range(400):
            page.keyboard.press("Tab")
            stop = page.evaluate(STOP)
            if stop is None or stop["again"]:
                break
            if not (stop["shown"] and stop["marked"]):
                page.wait_for_timeout(300)  # what moves into view
                stop = page.evaluate(STOP)
            stops.append(stop)
        assert 20 < len(stops) < 400
        assert [s["name"] for s in stops if not (s["shown"] and s["marked"])] == []


def test_the_drawer_of_a_phone_opens_by_keyboard(opened: Callable[..., Any], address: str):
    page = opened(viewport=PHONE)
    page.goto(f"{address}/index.html")
    for _ in range(2):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Navigation"
    for key in ("Enter", " "):
        before = page.evaluate("document.querySelector('[data-md-toggle=drawer]').checked")
        page.keyboard.press(key)
        after = page.evaluate("document.querySelector('[data-md-toggle=drawer]').checked")
        assert after is not before


def test_a_word_is_found(opened: Callable[..., Any], address: str):
    page = opened(viewport=DESK)
    page.goto(f"{address}/index.html")
    page.keyboard.press("/")
    page.keyboard.type("num_stages")
    page.wait_for_selector(".md-search-result__link")
    assert "options.html" in page.locator(".md-search-result__link").first.get_attribute("href")


def test_plots_follow_the_colours_that_are_chosen(opened: Callable[..., Any], address: str):
    page = opened(viewport=DESK, color_scheme="light")
    page.goto(f"{address}/performance.html")
    shown = (
        "[...document.querySelectorAll('article img')].filter(i => i.offsetWidth).map(i => i.src)"
    )
    assert not [src for src in page.evaluate(shown) if "-dark.svg" in src]
    page.locator("label[for=__palette_1]").click()
    assert not [src for src in page.evaluate(shown) if "-dark.svg" not in src]
