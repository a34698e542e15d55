"""httpx and what it stands on, or an error that says how to get them."""

from triptych.installation import lacking

try:
    import httpcore
    import httpx
except ImportError as error:
    raise lacking(
        "model providers need the package httpx, which is not installed", "http"
    ) from error

__all__ = ["httpcore", "httpx"]
