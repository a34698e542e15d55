"""The knowledge base over HTTP: `create_app` makes an ASGI app, ``triptych serve`` runs it.

Needs the extra ``server``.
"""

from triptych_adapters.http.limits import Limits
from triptych_adapters.keys.authenticator import Authenticator

__all__ = ["Authenticator", "Limits", "create_app"]


def __getattr__(name: str) -> object:
    # The app needs Starlette; who only names limits does not.
    if name == "create_app":
        from triptych_adapters.http.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
