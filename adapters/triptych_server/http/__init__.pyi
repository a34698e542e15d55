"""The knowledge base over HTTP, each name with the module that defines it."""

from triptych_server.http.app import create_app as create_app
from triptych_server.http.limits import Limits as Limits, listen as listen
from triptych_server.keys.authenticator import Authenticator as Authenticator
