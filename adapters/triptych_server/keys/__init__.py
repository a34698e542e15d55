"""Access keys for a served knowledge base, and what each may read and write."""

from triptych_server.keys.authenticator import KeyAuthenticator, RateLimiter, authenticator
from triptych_server.keys.key_store import AccessKey, KeyStore, NewKey

__all__ = [
    "AccessKey",
    "KeyAuthenticator",
    "KeyStore",
    "NewKey",
    "RateLimiter",
    "authenticator",
]
