"""Every method of `Service` and its views, awaited; methods.pyi, which is generated, types them."""

from triptych.aio.threads import awaited
from triptych.service import Service
from triptych.service.views import Dataset, PipelineView

AsyncServiceMethods = awaited(Service, "service")
AsyncDatasetMethods = awaited(Dataset, "view")
AsyncPipelineMethods = awaited(PipelineView, "view")
