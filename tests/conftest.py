"""Makes the modules that several folders of tests share importable, and the examples.

No test is held to a clock: on a busy machine an example may take any time.
"""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

settings.register_profile("triptych", deadline=None)
settings.load_profile("triptych")
