"""No kernel of the examples, the suite or the library is chosen by what is printed.

Every one is compiled up to its CUDA C++ while printing the IR, a decision or the remarks is an
error. That machine code is the same, too, `scripts/hash_kernels.py --blind` shows for all of them,
and `test_decisions.py` for each way in which the driver chooses after assembling.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from blinded import blinded, refuse

from tawa import Kernel
from tawa.ir.decisions import decision

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
from hash_kernels import GROUPS, Text, without_assembler

SHARES = 24


@pytest.mark.parametrize("share", range(SHARES))
def test_every_kernel_is_compiled_without_printing(
    share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    kernels = [kernel for group in GROUPS for kernel in group()][share::SHARES]
    assert len(kernels) > 10
    monkeypatch.setattr(Kernel, "_compile", Kernel._made)  # also what other tests have compiled
    with blinded(), patch.object(decision, "remarks", refuse), without_assembler():
        for name, compiled in kernels:
            with pytest.raises(Text) as found:
                compiled()
            assert "__global__" in str(found.value), name
