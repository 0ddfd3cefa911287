"""The suite of every executor, by HTTP to the fake of RunPod, with real pods' processes and a real board."""

from tests.integration.executors.conformance import ExecutorConformance


class TestRunPodExecutor(ExecutorConformance):
    pass
