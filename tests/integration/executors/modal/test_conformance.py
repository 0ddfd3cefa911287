"""The suite of every executor, against the real client library and container runtime of Modal."""

from tests.integration.executors.conformance import ExecutorConformance


class TestModalExecutor(ExecutorConformance):
    pass
