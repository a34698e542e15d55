"""Keys: who may ask a served knowledge base, and what each of them sees and may do."""

from triptych_adapters.keys.access_key import AccessKey, NewKey
from triptych_adapters.keys.authenticator import KeyAuthenticator, authenticator
from triptych_adapters.keys.key_store import KeyStore

__all__ = ["AccessKey", "KeyAuthenticator", "KeyStore", "NewKey", "authenticator"]
