"""Lets the tests here import the programs that they share, and the examples."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[2] / "examples" / "tasks"))
