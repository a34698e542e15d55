"""The conformance tests for backends.

A backend's whole test is one fixture::

    from triptych_testing import BackendConformance, Harness

    class TestMine(BackendConformance):
        @pytest.fixture
        def harness(self, tmp_path):
            return Harness(open=lambda: MyStore(tmp_path / "kb"), persistent=True)

The tests need pytest and Hypothesis, which Triptych itself does not install; the fakes do not.
The stub ``__init__.pyi`` lists the names, which are imported when they are first used: a process of
the kit's own, or a program that uses a fake model, needs few of them.
"""

import sys
from pkgutil import iter_modules

from triptych.runtime import lazy_exports

# Within a run of pytest their assertions tell what they saw. It is imported before all else there.
if "pytest" in sys.modules:
    import pytest

    for _module in iter_modules(__path__):
        pytest.register_assert_rewrite(f"{__name__}.{_module.name}")

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
