"""The console: pages for people, in the browser, beside the HTTP API of the same server.

Pages are rendered on the server and work without script; `triptych_server.http.create_app` adds
their routes. They call the Service of whoever asks, as every other door does.
"""
