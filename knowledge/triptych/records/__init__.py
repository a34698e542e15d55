"""The records of Triptych: the frozen classes that its methods take and return.

Records raise `ValidationError` for values that are invalid in any store. Only `Query` does not
validate its fields: `Service.search` does. The stub ``__init__.pyi`` lists the names, each with its
module, which is imported at first use.

What a search makes for each hit has no slots: attrs sets the fields of a frozen class that has
them by a call each, which takes twice as long as what it writes to an instance's dictionary.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
