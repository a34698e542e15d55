"""httpx and what it stands on, or an error that says how to get them."""

from triptych.errors import NotAvailableError

try:
    import httpcore
    import httpx
except ImportError as error:
    raise NotAvailableError(
        "model providers need the package httpx, which is not installed: "
        "pip install 'triptych[http]'"
    ) from error

__all__ = ["httpcore", "httpx"]
