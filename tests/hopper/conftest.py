"""Lets the tests of this folder import its modules: pytest does not put test folders on the path."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
