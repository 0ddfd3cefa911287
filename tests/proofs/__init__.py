"""Proofs that are run by hand, several processes at once: each computes in one thread."""

from configs.library_threads import compute_in_one_thread

compute_in_one_thread()
