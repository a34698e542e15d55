"""The base of all external interfaces: JSON, errors, operations and their arguments.

The command line and the tools read it. It knows no framework.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
