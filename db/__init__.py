"""SQLAlchemy models, sessions, migrations, the durable queue and the event log."""
