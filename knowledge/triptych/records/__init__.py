"""The records of Triptych: frozen values that cross every boundary of the library.

Records check what can be checked without a store and raise `ValidationError`. `Query` is
the exception: it carries whatever the caller wrote, and `Service.search` validates it. The stub
``__init__.pyi`` lists the names, each with its module, which is imported when it is first used.
"""

from triptych._internal.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
