"""What is searched where it is, whatever database it is in; a driver each for those that there are.

`postgres` (extra ``postgres``) has tables, `qdrant` (extra ``qdrant``) collections. What is here
imports neither.
"""

from triptych_backends.in_place.distinct import DistinctRows
from triptych_backends.in_place.spec import TableSpec
from triptych_backends.in_place.store import InPlaceStore

__all__ = ["DistinctRows", "InPlaceStore", "TableSpec"]
