"""Pages made once, and a headless browser to open them in."""

import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tawa.cli.reporting import LaunchCommand, write_report

EXAMPLES = Path(__file__).parents[3] / "examples"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory):
    """Write the page of an example once; gives its path."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def page(where: str) -> Path:
        path = folder / f"{where.replace(':', '-')}.html"
        return write_report(LaunchCommand(str(EXAMPLES / where)), path, None)

    return page


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Chromium without a window. Where it is missing, a test is skipped; in CI it fails."""
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None:
        missing = f"no Chromium on the PATH (one of {', '.join(CHROMIUM)}): the page is not opened"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    # Its sandbox needs rights that containers don't have; the pages are our own.
    arguments = ["--no-sandbox", "--disable-dev-shm-usage"] if sys.platform == "linux" else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=arguments)
        yield chromium
        chromium.close()
