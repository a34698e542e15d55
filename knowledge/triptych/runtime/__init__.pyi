"""The names of `triptych.runtime`, each with the module that defines it."""

from triptych._internal.close_on_exit import CloseOnExit as CloseOnExit
from triptych._internal.forks import in_child as in_child, renewed_in_child as renewed_in_child
from triptych._internal.turns import SEARCHES as SEARCHES, WouldWaitError as WouldWaitError
from triptych.runtime.lazy import lazy_exports as lazy_exports
