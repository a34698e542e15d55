"""The names of `triptych_adapters`, each with the module that defines it."""

from triptych_adapters.field_queries import only_fields as only_fields
from triptych_adapters.kinds import shown_kind as shown_kind
from triptych_adapters.near_names import did_you_mean as did_you_mean
from triptych_adapters.services import (
    check_service as check_service,
    documents_of as documents_of,
    layer_of as layer_of,
)
