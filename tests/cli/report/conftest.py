"""Pages made once."""

from functools import cache
from pathlib import Path

import pytest

from tawa.cli.reporting import LaunchCommand, write_report

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory):
    """Write the page of an example once; gives its path."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def page(where: str) -> Path:
        path = folder / f"{where.replace(':', '-')}.html"
        return write_report(LaunchCommand(str(EXAMPLES / where)), path, None)

    return page
