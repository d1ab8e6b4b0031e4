"""The other side of `cuppl_filters.py`, for a Python that has `particles`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import particles
from particles import distributions as dist
from particles import state_space_models as ssm


class _Model(ssm.StateSpaceModel):
    """The first state is one step from a standard normal."""

    sd, spread = 0.5, 0.81

    def PX0(self) -> Any:
        """The first state."""
        return dist.Normal(0.0, np.sqrt(self.spread + self.sd**2))

    def PX(self, t: int, xp: Any) -> Any:
        """The next state."""
        return dist.Normal(0.9 * xp, self.sd)


class Linear(_Model):
    """A walk, seen with normal noise."""

    def PY(self, t: int, xp: Any, x: Any) -> Any:
        """What is seen of a state."""
        return dist.Normal(x, 0.7)


class Counts(_Model):
    """A walk whose exponential counts have as their mean."""

    def PY(self, t: int, xp: Any, x: Any) -> Any:
        """What is seen of a state."""
        return dist.Poisson(np.exp(x))


class Volatility(_Model):
    """A walk whose exponential is the variance of what is seen."""

    def PX0(self) -> Any:
        """The first state."""
        return dist.Normal(-0.05, np.sqrt(0.95**2 + 0.09))

    def PX(self, t: int, xp: Any) -> Any:
        """The next state."""
        return dist.Normal(-1.0 + 0.95 * (xp + 1.0), 0.3)

    def PY(self, t: int, xp: Any, x: Any) -> Any:
        """What is seen of a state."""
        return dist.Normal(0.0, np.exp(0.5 * x))


class Growth(_Model):
    """The growth model, whose square is seen."""

    def PX0(self) -> Any:
        """The first state."""
        return dist.Normal(0.0, 10.0)

    def PX(self, t: int, xp: Any) -> Any:
        """The next state."""
        return dist.Normal(0.5 * xp + 25.0 * xp / (1.0 + xp * xp), 3.0)

    def PY(self, t: int, xp: Any, x: Any) -> Any:
        """What is seen of a state."""
        return dist.Normal(0.05 * x * x, 1.0)


MODELS = {"linear": Linear, "counts": Counts, "volatility": Volatility, "growth": Growth}


def main(model: str) -> None:
    """Run one model's filters."""
    given = json.load(sys.stdin)
    found = dict[str, Any]()
    for size, runs in given["sizes"].items():
        spent = list[float]()
        for _ in range(runs):
            filtered = ssm.Bootstrap(ssm=MODELS[model](), data=np.array(given["y"]))
            begin = time.process_time()
            smc = particles.SMC(fk=filtered, N=int(size), resampling="systematic", ESSrmin=0.5)
            smc.run()
            spent.append(time.process_time() - begin)
        found[size] = [min(spent[1:]), float(smc.logLt)]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
