"""The knowledge base over HTTP: `create_app` makes an ASGI app, ``triptych serve`` runs it.

Needs the extra ``server``. The app is imported when it is first used: who only names limits
needs no Starlette.
"""

from triptych.runtime import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
