"""The files and addresses that users name: regular files only, and URLs without their secrets.

A store's URL is split by `split_url` and `url_options`, whose errors show no password; whatever
else names it shows `shown_url`. A server's own words go through `without_secrets`.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
