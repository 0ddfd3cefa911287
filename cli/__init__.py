"""The autoinfer command; one small file per group of commands."""
