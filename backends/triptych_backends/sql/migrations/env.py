"""Alembic's entry: it runs in the transaction of the connection that the store hands over."""

from alembic import context

from triptych_backends.sql.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
