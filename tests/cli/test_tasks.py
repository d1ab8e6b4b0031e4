"""The commands of `tawa tasks`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tawa.cli.app import command_line
from tawa.cli.tasks.showing import NoSuchStage
from tawa.cli.tasks.task_file import BadShape, TaskNotFound, find_task
from tawa.tasks import Mapping
from tawa.tasks.language.errors import BadMapping

EXAMPLES = Path(__file__).parents[2] / "examples" / "tasks"
GEMM = f"{EXAMPLES / 'gemm_tasks.py'}:gemm"


def said(*arguments: str, status: int = 0) -> str:
    """What a command prints."""
    found = CliRunner().invoke(command_line(["tasks"]), ["tasks", *arguments])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == status
    return found.output


def test_run_under_a_mapping(tmp_path: Path):
    path = tmp_path / "mapping.py"
    said("map", GEMM, "-o", str(path), "--seconds", "0")
    assert "c: relative error" in said("run", GEMM, "--mapping", str(path))


def test_map_writes_what_defaults_say(tmp_path: Path):
    path = tmp_path / "mapping.py"
    sizes = [w for s in ("a=512x256", "b=256x512", "c=512x512") for w in ("--shape", s)]
    text = said("map", GEMM, "-o", str(path), "--seconds", "0", *sizes)
    assert "1.00 times as fast as defaults; 1 tried" in text
    grid = Mapping.read(path).instances["gemm_grid"]
    assert (grid.processor, dict(grid.tunables)) == ("device", {"U": 128, "V": 128})
    leaf = Mapping.read(path).instances["multiply_tile"]
    assert dict(leaf.memories) == {"acc": "register", "a": "shared", "b": "shared"}


def test_show_and_compile(tmp_path: Path):
    assert "gemm_grid on device:" in said("show", GEMM)
    assert "def gemm_block_kernel(" in said("show", GEMM, "--stage", "gemm_block_kernel")
    assert "Instance('gemm_block', processor='block'" in said("show", GEMM, "--stage", "mapping")
    path = tmp_path / "events.svg"
    assert "events" in said("show", GEMM, "--svg", str(path))
    assert path.read_text().startswith("<svg")
    large = [word for name in "abc" for word in ("--shape", f"{name}=4096x4096")]
    text = said("compile", GEMM, *large)
    assert "gemm_block_kernel: 384 threads" in text
    assert "predicted: " in text
    with pytest.raises(NoSuchStage):
        said("show", GEMM, "--stage", "nothing")


def test_check_proves_a_program(tmp_path: Path):
    text = said("check", f"{EXAMPLES / 'mlp_tasks.py'}:mlp", "--schedules", "1")
    assert text.count("proved for this launch") == 2
    assert text.count("levels tile, hopper, PTX: the same results") == 2


def test_what_can_be_wrong():
    with pytest.raises(TaskNotFound, match="no task `nothing`"):
        find_task(f"{EXAMPLES / 'gemm_tasks.py'}:nothing")
    with pytest.raises(BadShape, match="no tensor `d`"):
        find_task(GEMM).arguments(["d=16x16"])
    with pytest.raises(BadShape, match="can't be read"):
        find_task(GEMM).arguments(["a=16*16"])


def test_check_proves_a_program_of_devices():
    strips = f"{EXAMPLES / 'stencil_devices_tasks.py'}:diffuse_strips"
    text = said("check", strips, "--schedules", "1")
    assert "proved: works that touch the same elements are ordered" in text
    assert text.count("proved for this launch") == 1  # one program serves all bands
    assert "copies to 0: copy x[75:76, 0:130] from device 1 to device 0" in said("show", strips)
    with pytest.raises(BadMapping, match="no program of one device"):
        said("compile", strips)
