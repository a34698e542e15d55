"""The names of `triptych_sources`, each with the module that defines it."""

from triptych_sources.git import GitSource as GitSource
from triptych_sources.web import WebSource as WebSource
