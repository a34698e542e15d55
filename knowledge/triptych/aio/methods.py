"""Every method of `Service` and its views, awaited; methods.pyi, which is generated, types them."""

from triptych.aio.awaiting import awaited
from triptych.service import Service
from triptych.service.dataset import Dataset
from triptych.service.pipeline import PipelineView

AsyncServiceMethods = awaited(Service, "service")
AsyncDatasetMethods = awaited(Dataset, "view")
AsyncPipelineMethods = awaited(PipelineView, "view")
