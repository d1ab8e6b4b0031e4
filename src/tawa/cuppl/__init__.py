"""CuPPL: universal probabilistic programs, compiled to CPU and GPU.

from tawa import cuppl
coin = cuppl.model("def main () = let p = sample (beta 1 1) in observe (binomial 10 p) 7; p")
print(coin.smc(10_000).summary())
"""

from tawa.base.extras import require

require("cuppl", "CuPPL", "lark", "llvmlite>=0.45")

from tawa.cuppl.inference.checkpoint import Checkpoint  # noqa: E402
from tawa.cuppl.inference.settings import Limits  # noqa: E402
from tawa.cuppl.islands import Islands, ProcessExecutor, RayExecutor  # noqa: E402
from tawa.cuppl.model import Model, load, model  # noqa: E402
from tawa.cuppl.results.posterior import InferenceWarning, Posterior  # noqa: E402

__all__ = [
    "Checkpoint", "InferenceWarning", "Islands", "Limits", "Model", "Posterior", "ProcessExecutor",
    "RayExecutor", "load", "model",
]  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)
