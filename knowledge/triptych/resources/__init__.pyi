"""The names of `triptych.resources`, each with the module that defines it."""

from triptych.resources.files import (
    open_regular as open_regular,
    read_regular as read_regular,
    write_bytes as write_bytes,
    written_whole as written_whole,
)
from triptych.resources.urls import (
    query_of as query_of,
    shown_url as shown_url,
    split_url as split_url,
    url_options as url_options,
    without_secrets as without_secrets,
)
