"""The executor `modal`: a job is one call of a deployed function on Modal. See docs/modal.md."""
