ALTER TABLE document_change ADD COLUMN added BIGINT;
