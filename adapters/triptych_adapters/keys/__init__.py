"""Access keys for a served knowledge base, and what each may read and write."""

from triptych_adapters.keys.authenticator import KeyAuthenticator, authenticator
from triptych_adapters.keys.key_store import AccessKey, KeyStore, NewKey

__all__ = ["AccessKey", "KeyAuthenticator", "KeyStore", "NewKey", "authenticator"]
