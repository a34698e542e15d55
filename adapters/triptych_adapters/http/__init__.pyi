"""The knowledge base over HTTP, each name with the module that defines it."""

from triptych_adapters.http.app import create_app as create_app
from triptych_adapters.http.limits import Limits as Limits
from triptych_adapters.keys.authenticator import Authenticator as Authenticator
