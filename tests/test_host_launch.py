"""Launches on NumPy arrays run whatever the tile simulator can, and say what no GPU would run."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.driver.host_launch import SimulatedOnly
from tawa.ir.decisions.assembling import OnlySimulated
from tawa.runtime.nvrtc import NvrtcMissing


@tawa.jit
def large(x):
    x.store([0, 0], x.load([0, 0]) * 2)


@tawa.jit
def doubled(x, N: tl.constexpr):
    at = x + tl.arange(0, N)
    tl.store(at, tl.load(at) * 2)


@tawa.jit
def wrong(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), tl.no_such_function(N))  # pyright: ignore


def blocks():
    x = np.ones((256, 256), np.float32)
    return x, tawa.TensorDescriptor.from_tensor(x, [256, 256])


def test_what_no_gpu_would_run_runs_and_is_said_once():
    kernel = tawa.jit(large.fn)
    x, tiles = blocks()
    with pytest.warns(SimulatedOnly, match="does not compile for sm_90a") as caught:
        compiled = kernel[(1,)](tiles)
    assert (x == 2).all()
    assert "expected: at most 232448 bytes" in str(caught[0].message)
    assert "test_host_launch.py:" in str(caught[0].message), "the user's line"
    assert caught[0].filename == __file__, "the warning points at the launch"
    assert (compiled.spec.threads, compiled.spec.arguments) == (32, ("x",)), "of no launch"
    (found,) = compiled.decided(OnlySimulated)
    assert "does not compile for sm_90a" in found.why
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel[(1,)](tiles)
    assert (x == 4).all()


def test_compiling_it_for_a_gpu_is_still_an_error():
    with pytest.raises(tawa.TawaError, match="shared memory"):
        large.compile("desc<f32,256x256>")


def test_a_wrong_kernel_is_an_error():
    with pytest.raises(tawa.TawaError, match="no_such_function"):
        wrong[(1,)](np.zeros(8, np.float32), 8)


def test_options_that_cannot_be_met_are_errors():
    with pytest.raises(tawa.TawaError, match="cannot be specialised"):
        doubled[(1,)](np.zeros(8, np.float32), 8, specialize=True)


def test_a_machine_without_nvrtc(monkeypatch: pytest.MonkeyPatch, tmp_path):
    def missing(*args, **kwargs):
        raise NvrtcMissing("NVRTC can't be loaded")

    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tawa.runtime.assemble.compile_cuda", missing)
    x = np.ones(8, np.float32)
    with pytest.warns(SimulatedOnly, match="NvrtcMissing"):
        tawa.jit(doubled.fn)[(1,)](x, 8)
    assert (x == 2).all()


def test_the_command_line_says_it_and_goes_on(tmp_path):
    path = tmp_path / "doubling.py"
    path.write_text(
        "import numpy as np\nimport tawa\nimport tawa.language as tl\n\n\n@tawa.jit\n"
        "def doubling(x):\n"
        "    x.store([0, 0], x.load([0, 0]) * 2)\n\n\n"
        "def example_doubling():\n"
        "    x = np.ones((256, 256), np.float32)\n"
        "    doubling[(1,)](tawa.TensorDescriptor.from_tensor(x, [256, 256]))\n"
        "    return {'x': (x, np.full((256, 256), 2))}\n"
    )
    command = [sys.executable, "-m", "tawa", "run", f"{path}:doubling"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "relative error 0.0e+00" in done.stdout
    assert "does not compile for sm_90a" in done.stderr
