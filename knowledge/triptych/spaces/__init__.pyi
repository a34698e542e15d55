"""The names of `triptych.spaces`, each with the module that defines it."""

from triptych.spaces.filling import (
    FillReport as FillReport,
    SpaceState as SpaceState,
    SwapReport as SwapReport,
    fill_space as fill_space,
)
from triptych.spaces.swapping import (
    drop_space as drop_space,
    list_spaces as list_spaces,
    space_service as space_service,
    swap_back as swap_back,
    swap_space as swap_space,
)
