"""What all tests share: the flag that refreshes recorded outputs, goldens, and the GPU marker."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="rewrite goldens and the outputs shown in documents"
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
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
