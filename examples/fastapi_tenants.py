"""An application with a key per tenant: each sees, and writes, its own documents.

pip install fastapi uvicorn
triptych --store tenants.db admin keys add 'the red team' --dataset red --write
uvicorn fastapi_tenants:app
"""

from typing import Annotated

from fastapi import Depends, FastAPI, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

import triptych
from triptych import errors
from triptych_server.keys import KeyAuthenticator, KeyStore

kb = triptych.open("tenants.db")
who = KeyAuthenticator(kb, KeyStore.of(kb))
app = FastAPI(title="Notes of tenants")

STATUS = {
    errors.AuthenticationError: 401,
    errors.AccessDeniedError: 403,
    errors.NotFoundError: 404,
    errors.TooManyRequestsError: 429,
    errors.ValidationError: 422,
}


@app.exception_handler(errors.TriptychError)
def report(request: Request, error: errors.TriptychError) -> JSONResponse:
    status = next((STATUS[each] for each in type(error).__mro__ if each in STATUS), 500)
    detail = str(error) if status < 500 else "the request failed"
    return JSONResponse({"detail": detail}, status)


def sender(authorization: Annotated[str | None, Header()] = None) -> triptych.KnowledgeBase:
    """The knowledge base as the key in the header shows it."""
    return who(authorization)


Mine = Annotated[triptych.KnowledgeBase, Depends(sender)]


class Note(BaseModel):
    text: str


@app.put("/{tenant}/notes/{name:path}")
def put(tenant: str, name: str, note: Note, mine: Mine) -> dict[str, int]:
    return {"version": mine.put_document(tenant, name, note.text).version}


@app.get("/{tenant}/search")
def search(tenant: str, q: str, mine: Mine) -> list[dict[str, str]]:
    hits = mine.search(q, dataset_id=tenant).hits
    return [{"note": hit.doc_name, "text": hit.content} for hit in hits]
