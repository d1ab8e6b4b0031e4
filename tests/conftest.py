"""What all tests share: the flag that refreshes recorded outputs, goldens, a browser, the marker."""

import os
import re
import resource
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

os.environ.setdefault("TAWA_VERIFY", "1")  # after every pass, in every process that tests start

SLOW = Path(__file__).parent / "slow.txt"
"""Tests that `make test` leaves out, one a line, with the processor seconds they took."""

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="rewrite goldens and the outputs shown in documents"
    )
    parser.addoption(
        "--processor-seconds", metavar="FILE", help="append each test's; see scripts/slow_tests.py"
    )


@cache
def hopper_gpu() -> bool:
    """Whether this machine has a GPU of compute capability 9.0."""
    from cuda.bindings import driver

    def ok(result):
        return result[0] == driver.CUresult.CUDA_SUCCESS

    try:
        if not ok(driver.cuInit(0)):
            return False
    except RuntimeError:  # no driver library
        return False
    found = driver.cuDeviceGet(0)
    if not ok(found):
        return False
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    major = driver.cuDeviceGetAttribute(attribute, found[1])
    return ok(major) and major[1] == 9


@cache
def slow_tests() -> frozenset[str]:
    """The names of `SLOW`: of tests, and of tests of one case."""
    lines = SLOW.read_text().splitlines()
    return frozenset(line.split(maxsplit=1)[1] for line in lines if line and line[0] != "#")


def is_slow(name: str) -> bool:
    """Whether a test, by its name with file and case, is left out of the quick set."""
    return not slow_tests().isdisjoint((name, name.partition("[")[0]))


def processor_seconds() -> float:
    """Of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note what a test takes, with what is set up for it."""
    file, begin = item.config.getoption("--processor-seconds"), processor_seconds()
    try:
        return (yield)
    finally:
        if file:
            with open(file, "a") as out:
                out.write(f"{processor_seconds() - begin:.2f} {item.nodeid}\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker("slow")
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not hopper_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no GPU of compute capability 9.0"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the file `goldens/<test name>.<extension>` beside the test.

    A missing file fails; `--update` writes it.
    """

    def check(text: str, extension: str) -> None:
        name = re.sub(r"[^\w.-]+", "_", request.node.name).strip("_")
        path = Path(request.path).parent / "goldens" / f"{name}.{extension}"
        if request.config.getoption("--update"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden {path}: write it with --update"
        assert text == path.read_text(), f"differs from {path}: look, then --update"

    return check


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
