"""The console: pages for people, in the browser, beside the HTTP API of the same server.

Pages are rendered on the server and work without script; `triptych_server.http.create_app` adds
their routes. They call the Service of whoever asks, as every other door does.
"""

from triptych_server.console.markdown import LONGEST, excerpt, rendered
from triptych_server.console.reviews import side_by_side

__all__ = ["LONGEST", "excerpt", "rendered", "side_by_side"]
