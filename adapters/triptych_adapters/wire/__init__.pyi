"""The names of `triptych_adapters.wire`, each with the module that defines it."""

from triptych_adapters.wire.arguments import (
    check_schema as check_schema,
    json_schema as json_schema,
    object_schema as object_schema,
    read_arguments as read_arguments,
    read_object as read_object,
    strict_json as strict_json,
)
from triptych_adapters.wire.build_layers import (
    BUILD_LAYERS_ROUTE as BUILD_LAYERS_ROUTE,
    LayerBuild as LayerBuild,
    check_may_build as check_may_build,
    stale_layers as stale_layers,
)
from triptych_adapters.wire.operations import (
    OPERATIONS as OPERATIONS,
    PIPELINE_OPERATIONS as PIPELINE_OPERATIONS,
    Operation as Operation,
    mode_schema as mode_schema,
)
from triptych_adapters.wire.routes import (
    PIPELINE_ROUTES as PIPELINE_ROUTES,
    ROUTES as ROUTES,
    SERVICE_PATH as SERVICE_PATH,
    Route as Route,
    ServerFacts as ServerFacts,
    argument_in as argument_in,
    query_arguments as query_arguments,
    query_pairs as query_pairs,
)
