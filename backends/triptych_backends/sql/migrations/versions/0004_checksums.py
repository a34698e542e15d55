"""A checksum beside the text of each chunk and each layer, and what a chunk's id is made of."""

from __future__ import annotations

import sqlite3
import zlib

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, and work out the checksums of what is there."""
    op.add_column("chunk", sa.Column("checksum", sa.BigInteger))
    op.add_column("chunk", sa.Column("occurrence", sa.BigInteger))
    op.add_column("layer", sa.Column("checksum", sa.BigInteger))
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    driver.create_function("triptych_checksum", -1, _checksum, deterministic=True)
    driver.execute(
        "UPDATE chunk SET checksum = "
        "triptych_checksum(chunk.content, d.name, chunk.position, chunk.heading_path) "
        "FROM document d WHERE d.id = chunk.document_id"
    )
    driver.execute(
        "UPDATE chunk SET occurrence = n.earlier FROM ("
        "SELECT id, row_number() OVER (PARTITION BY document_id, input_sig ORDER BY position) - 1"
        " AS earlier FROM chunk) n WHERE n.id = chunk.id"
    )
    driver.execute("UPDATE layer SET checksum = triptych_checksum(content, doc_name, layer)")


def _checksum(content: object, name: str, *labels: object) -> int | None:
    # A value of another type is damage, which whoever reads it will name.
    if not isinstance(content, bytes):
        return None
    return zlib.crc32(content, zlib.crc32(f"{name}\0{labels}".encode()))
