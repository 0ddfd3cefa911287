"""The packaged migrations, run by `db.schema`; a new one becomes `db.schema.HEAD_REVISION`."""
