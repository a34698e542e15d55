"""Makes the modules that several folders of tests share importable, and the examples."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
