"""A fake of Modal on loopback: it speaks Modal's real protocol to Modal's real client library, keeps apps,
functions, calls and Dicts in memory, and starts containers by Modal's real runtime as processes here.

No GPU is anywhere: a container is told one by name (`gpu_given`), for the body's own check of it.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psutil
from google.protobuf import empty_pb2
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from modal_proto import api_pb2

from tests.simulated.modal import app as deployed
from tests.simulated.modal.machine import Machine, end, processes
from tests.simulated.modal.rpc import Loopback, Service
from tests.waiting import PATIENCE_S

GPUS = {
    "": ",0",
    "H100!": "NVIDIA H100 80GB HBM3,85",
    "A100-40GB": "NVIDIA A100-SXM4-40GB,42",
    "L4": "NVIDIA L4,24",
}
"""What a container of each type is told it has: the driver's name and GB."""

_Result = api_pb2.GenericResult


@dataclass
class FakeCall:
    """A function call: its input, its container, its result."""

    call_id: str
    function_id: str
    args: api_pb2.FunctionInput
    gpu: str
    timeout_s: int
    created_at: float = field(default_factory=time.time)
    pid: int | None = None
    starts: int = 0
    result: api_pb2.GenericResult | None = None
    data_format: int = api_pb2.DATA_FORMAT_PICKLE
    expired: bool = False
    fetched: int = 0
    hung: bool = False

    @property
    def input_id(self) -> str:
        return "in-" + self.call_id.removeprefix("fc-")


class FakeModal(Service):
    """The state and the methods; `hold` keeps new calls waiting for a container."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.machine = Machine()
        self.ids = count(1)
        self.apps: dict[str, str] = {}
        self.published: dict[str, dict[str, str]] = {}
        self.functions: dict[str, api_pb2.Function] = {}
        self.options: dict[str, tuple[str, api_pb2.FunctionOptions]] = {}
        self.calls: dict[str, FakeCall] = {}
        self.dicts: dict[str, dict[bytes, bytes]] = {}
        self.rates: dict[str, str] = {}
        self.bill: list[tuple[str, float, float]] = []
        """App, when its hour began in seconds since 1970, and dollars."""
        self.hold = False
        self.gpu_given: dict[str, str] = dict(GPUS)
        self.raises = False
        self.checked: set[str] = set()
        self.mounted: list[str] = []
        self._lock = threading.RLock()
        self.loopback = Loopback(self)

    def close(self) -> None:
        self.machine.close()
        self.loopback.close()

    # What a test does to it.

    def release(self) -> None:
        """Give every call that waits a container."""
        self.hold = False
        for call in list(self.calls.values()):
            if call.pid is None and call.result is None:
                self._start(call)

    def preempt(self, call_id: str) -> None:
        """End the call's container and start another one on the same input."""
        call = self.calls[call_id]
        pid, call.pid = call.pid, None
        assert pid is not None
        end(pid)
        self._start(call)

    def crash(self, call_id: str) -> None:
        """End the call's container as a fault would."""
        call = self.calls[call_id]
        assert call.pid is not None
        end(call.pid)

    def finish(self, call_id: str, result: api_pb2.GenericResult) -> None:
        """Give the call a result, whatever its container does."""
        self._finish(self.calls[call_id], result)

    def living(self, call_id: str) -> int:
        """Processes of the call's container; one that has answered is let end first, as it does by itself."""
        call = self.calls.get(call_id)
        if call is None or call.pid is None:
            return 0
        if call.result is not None:
            psutil.wait_procs(processes(call.pid), timeout=PATIENCE_S)
        return len(processes(call.pid))

    def log_of(self, call_id: str) -> Path:
        return self.folder / f"{call_id}.log"

    # Apps: deploying, looking up, ending.

    def ClientHello(self, _: empty_pb2.Empty) -> api_pb2.ClientHelloResponse:
        return api_pb2.ClientHelloResponse(image_builder_version="2025.06")

    def EnvironmentGetOrCreate(self, request):
        metadata = api_pb2.EnvironmentMetadata(
            name=request.deployment_name or "main",
            settings=api_pb2.EnvironmentSettings(image_builder_version="2025.06"),
        )
        return api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata)

    def AppGetByDeploymentName(self, request):
        return api_pb2.AppGetByDeploymentNameResponse(app_id=self.apps.get(request.name, ""))

    def AppGetLayout(self, request):
        layout = api_pb2.AppLayout(function_ids=self.published.get(request.app_id, {}))
        for function_id in layout.function_ids.values():
            metadata = self._metadata(function_id)
            layout.objects.append(api_pb2.Object(object_id=function_id, function_handle_metadata=metadata))
        return api_pb2.AppGetLayoutResponse(app_layout=layout)

    def AppCreate(self, _):
        return api_pb2.AppCreateResponse(app_id=f"ap-{next(self.ids)}")

    def AppHeartbeat(self, _):
        return empty_pb2.Empty()

    AppClientDisconnect = AppHeartbeat

    def AppPublish(self, request):
        self.apps[request.name] = request.app_id
        self.published[request.app_id] = dict(request.function_ids)
        return api_pb2.AppPublishResponse(url="http://127.0.0.1/app", deployed_at=time.time())

    def AppGetOrCreate(self, request):
        app_id = self.apps.get(request.app_name)
        if app_id is None:
            raise GRPCError(Status.NOT_FOUND, f"App {request.app_name} not found")
        metadata = api_pb2.AppHandleMetadata(
            description=request.app_name, app_id=app_id, functions=self.published[app_id]
        )
        return api_pb2.AppGetOrCreateResponse(app_id=app_id, handle_metadata=metadata)

    def AppStop(self, request):
        for name, app_id in list(self.apps.items()):
            if app_id == request.app_id:
                del self.apps[name]
        for call in self.calls.values():
            self._terminate(call)
        return empty_pb2.Empty()

    def MountBatchedCheckExistence(self, request):
        """Every file is there already, as after an earlier deployment: no contents are sent to the fake."""
        self.checked.update(request.sha256_hex_hashes)
        return api_pb2.MountBatchedCheckExistenceResponse()

    def MountGetOrCreate(self, request):
        self.mounted += [each.filename for each in request.files]
        return api_pb2.MountGetOrCreateResponse(mount_id=f"mo-{next(self.ids)}")

    def ImageGetOrCreate(self, _):
        done = _Result(status=_Result.GENERIC_STATUS_SUCCESS)
        metadata = api_pb2.ImageMetadata(image_builder_version="2025.06")
        return api_pb2.ImageGetOrCreateResponse(
            image_id=f"im-{next(self.ids)}", result=done, metadata=metadata
        )

    def VolumeGetOrCreate(self, request):
        metadata = api_pb2.VolumeMetadata(name=request.deployment_name)
        return api_pb2.VolumeGetOrCreateResponse(volume_id=f"vo-{next(self.ids)}", metadata=metadata)

    def FunctionPrecreate(self, request):
        function_id = request.existing_function_id or f"fu-{next(self.ids)}"
        metadata = api_pb2.FunctionHandleMetadata(
            function_name=request.function_name, function_type=request.function_type
        )
        return api_pb2.FunctionPrecreateResponse(function_id=function_id, handle_metadata=metadata)

    def FunctionCreate(self, request):
        function_id = request.existing_function_id or f"fu-{next(self.ids)}"
        self.functions[function_id] = request.function
        return api_pb2.FunctionCreateResponse(
            function_id=function_id,
            function=request.function,
            function_data=self._data(function_id),
            handle_metadata=self._metadata(function_id),
        )

    def FunctionGet(self, request):
        app_id = self.apps.get(request.app_name, "")
        function_id = self.published.get(app_id, {}).get(request.object_tag)
        if function_id is None:
            raise GRPCError(Status.NOT_FOUND, f"{request.app_name}/{request.object_tag} is not deployed")
        return api_pb2.FunctionGetResponse(
            function_id=function_id,
            function=self._data(function_id),
            handle_metadata=self._metadata(function_id),
        )

    def FunctionBindParams(self, request):
        bound = f"fu-{next(self.ids)}"
        self.options[bound] = (request.function_id, request.function_options)
        return api_pb2.FunctionBindParamsResponse(
            bound_function_id=bound, handle_metadata=self._metadata(request.function_id)
        )

    def WorkspaceNameLookup(self, _):
        return api_pb2.WorkspaceNameLookupResponse(workspace_name="mine", username="me")

    def WorkspaceBillingRates(self, _):
        return api_pb2.WorkspaceBillingRatesResponse(rates=self.rates)

    def WorkspaceBillingReport(self, request) -> Iterator[api_pb2.WorkspaceBillingReportItem]:
        for app, began_s, usd in self.bill:
            if request.start_timestamp.seconds <= began_s and began_s + 3600 <= request.end_timestamp.seconds:
                item = api_pb2.WorkspaceBillingReportItem(
                    object_id=f"ap-{app}", description=app, environment_name="main", cost=str(usd)
                )
                item.interval.FromSeconds(int(began_s))
                yield item

    def _data(self, function_id: str) -> api_pb2.FunctionData:
        ranked = api_pb2.FunctionData.RankedFunction(rank=0, function=self.functions[function_id])
        return api_pb2.FunctionData(ranked_functions=[ranked])

    def _metadata(self, function_id: str) -> api_pb2.FunctionHandleMetadata:
        definition = self.functions[function_id]
        return api_pb2.FunctionHandleMetadata(
            app_id=next(iter(self.apps.values()), ""),
            function_name=definition.function_name,
            function_type=definition.function_type,
            supported_input_formats=definition.supported_input_formats,
            supported_output_formats=definition.supported_output_formats,
        )

    # Calls.

    def FunctionMap(self, request):
        base, options = self.options.get(request.function_id, (request.function_id, None))
        call = FakeCall(
            call_id=f"fc-{next(self.ids)}",
            function_id=base,
            args=request.pipelined_inputs[0].input,
            gpu="" if options is None else options.resources.gpu_config.gpu_type,
            timeout_s=options.timeout_secs if options else self.functions[base].timeout_secs,
        )
        self.calls[call.call_id] = call
        if not self.hold:
            self._start(call)
        put = api_pb2.FunctionPutInputsResponseItem(input_id=call.input_id)
        return api_pb2.FunctionMapResponse(function_call_id=call.call_id, pipelined_inputs=[put])

    def FunctionGetOutputs(self, request):
        call = self._call(request.function_call_id)
        if call.expired:
            return api_pb2.FunctionGetOutputsResponse(num_unfinished_inputs=0)
        if call.result is None:
            return api_pb2.FunctionGetOutputsResponse(num_unfinished_inputs=1)
        item = api_pb2.FunctionGetOutputsItem(
            result=call.result, input_id=call.input_id, data_format=call.data_format
        )
        return api_pb2.FunctionGetOutputsResponse(outputs=[item])

    def FunctionCallCancel(self, request):
        call = self._call(request.function_call_id)
        if request.terminate_containers:
            self._terminate(call)
        return empty_pb2.Empty()

    def FunctionCallFromId(self, request):
        call = self._call(request.function_call_id)
        metadata = api_pb2.FunctionCallHandleMetadata(app_id="ap-1", function_id=call.function_id)
        return api_pb2.FunctionCallFromIdResponse(
            function_call_id=call.call_id, num_inputs=1, metadata=metadata
        )

    def AppCountLogs(self, request):
        bucket = api_pb2.AppCountLogsResponse.LogBucket(stdout_logs=1)
        bucket.bucket_start_at.CopyFrom(request.since)
        return api_pb2.AppCountLogsResponse(app_id=request.app_id, buckets=[bucket])

    def AppFetchLogs(self, request):
        try:
            lines = (
                self.log_of(request.function_call_id).read_text(errors="replace").splitlines(keepends=True)
            )
        except FileNotFoundError:
            lines = []
        now = time.time()
        items = [
            api_pb2.TaskLogs(data=line, timestamp=now, timestamp_ns=int(now * 1e9) + number)
            for number, line in enumerate(lines)
        ]
        batch = api_pb2.TaskLogsBatch(items=items[-(request.limit or 100) :])
        return api_pb2.AppFetchLogsResponse(batches=[batch])

    def _call(self, call_id: str) -> FakeCall:
        if call_id not in self.calls:
            raise GRPCError(Status.NOT_FOUND, f"Function call {call_id} not found")
        return self.calls[call_id]

    def _terminate(self, call: FakeCall) -> None:
        if call.result is None:
            call.result = _Result(
                status=_Result.GENERIC_STATUS_TERMINATED, exception="the call was cancelled"
            )
            if call.pid is not None:
                end(call.pid)

    def _finish(self, call: FakeCall, result: api_pb2.GenericResult) -> None:
        with self._lock:
            if call.result is None:
                call.result = result

    # Containers.

    def _start(self, call: FakeCall) -> None:
        definition = api_pb2.Function()
        definition.CopyFrom(self.functions[call.function_id])
        call.starts += 1
        arguments = api_pb2.ContainerArguments(
            task_id=f"ta-{call.call_id}-{call.starts}",
            function_id=call.call_id.replace("fc-", "fu-of-"),
            app_id="ap-1",
            function_def=definition,
        )
        given = self.folder / f"{arguments.task_id}.pb"
        given.write_bytes(arguments.SerializeToString())
        disk = self.folder / f"{arguments.task_id}-disk"
        disk.mkdir()
        environment = {
            "MODAL_CONTAINER_ARGUMENTS_PATH": str(given),
            "MODAL_TASK_ID": arguments.task_id,
            "MODAL_IS_REMOTE": "1",
            "MODAL_SERVER_URL": self.loopback.url,
            deployed.GPU: self.gpu_given[call.gpu],
            deployed.FOLDER: str(self.folder),
            deployed.RAISES: "1" if self.raises else "",
            "TMPDIR": str(disk),
        }
        call.fetched = 0
        call.pid = pid = self.machine.start(environment, self.log_of(call.call_id))
        threading.Thread(target=self._watch, args=(call, pid, time.monotonic()), daemon=True).start()

    def _watch(self, call: FakeCall, pid: int, began_s: float) -> None:
        """What Modal does about a container: ends it at its time limit, and notes that it is gone."""
        process = psutil.Process(pid)
        while True:
            try:
                process.wait(0.05)
                break
            except psutil.TimeoutExpired:
                if time.monotonic() - began_s > call.timeout_s:
                    said = f"the call ran longer than {call.timeout_s} s"
                    self._finish(call, _Result(status=_Result.GENERIC_STATUS_TIMEOUT, exception=said))
                    end(pid)
            except psutil.NoSuchProcess:
                break
        if call.pid == pid:
            gone = _Result(status=_Result.GENERIC_STATUS_INTERNAL_FAILURE, exception="the container is gone")
            self._finish(call, gone)

    def ContainerHello(self, _):
        return empty_pb2.Empty()

    async def ContainerHeartbeat(self, _):
        return api_pb2.ContainerHeartbeatResponse()

    async def FunctionGetInputs(self, request):
        call = self.calls[request.function_id.replace("fu-of-", "fc-")]
        if call.fetched:
            await asyncio.sleep(1)
            return api_pb2.FunctionGetInputsResponse()
        call.fetched += 1
        item = api_pb2.FunctionGetInputsItem(
            input_id=call.input_id,
            input=call.args,
            function_call_id=call.call_id,
            function_call_invocation_type=api_pb2.FUNCTION_CALL_INVOCATION_TYPE_ASYNC,
        )
        return api_pb2.FunctionGetInputsResponse(inputs=[item])

    def FunctionPutOutputs(self, request):
        for output in request.outputs:
            call = next(each for each in self.calls.values() if each.input_id == output.input_id)
            call.data_format = output.data_format
            self._finish(call, output.result)
        return empty_pb2.Empty()

    def TaskResult(self, _):
        return empty_pb2.Empty()

    ContainerStop = TaskResult

    def VolumeCommit(self, _):
        return api_pb2.VolumeCommitResponse(skip_reload=True)

    # Dicts.

    def DictGetOrCreate(self, request):
        name = f"di-{request.deployment_name}"
        self.dicts.setdefault(name, {})
        metadata = api_pb2.DictMetadata(name=request.deployment_name)
        return api_pb2.DictGetOrCreateResponse(dict_id=name, metadata=metadata)

    def DictUpdate(self, request):
        with self._lock:
            found = self.dicts[request.dict_id]
            new = [each for each in request.updates if each.key not in found]
            for each in new if request.if_not_exists else request.updates:
                found[each.key] = each.value
            return api_pb2.DictUpdateResponse(created=bool(new))

    def DictGet(self, request):
        value = self.dicts[request.dict_id].get(request.key)
        if value is None:
            return api_pb2.DictGetResponse(found=False)
        return api_pb2.DictGetResponse(found=True, value=value)

    def DictContains(self, request):
        return api_pb2.DictContainsResponse(found=request.key in self.dicts[request.dict_id])

    def DictContents(self, request) -> Iterator[api_pb2.DictEntry]:
        for key, value in list(self.dicts[request.dict_id].items()):
            yield api_pb2.DictEntry(key=key, value=value)
