"""Keys: who may ask a served knowledge base, and what each of them sees and may do."""

from triptych_adapters.access.authenticator import KeyAuthenticator, authenticator
from triptych_adapters.access.key_store import KeyStore
from triptych_adapters.access.keys import AccessKey, NewKey

__all__ = ["AccessKey", "KeyAuthenticator", "KeyStore", "NewKey", "authenticator"]
