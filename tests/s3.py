"""A server on loopback that speaks S3's protocol, for the real client: moto's, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SERVE = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""
BUCKET = "artifacts"


@contextmanager
def serving() -> Iterator[dict[str, str]]:
    """The variables under which a client finds the server and its bucket; it ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            variables = {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{int(process.stdout.readline())}",
                "AWS_ACCESS_KEY_ID": "key-of-tests",
                "AWS_SECRET_ACCESS_KEY": "secret-of-tests",
                "AWS_DEFAULT_REGION": "us-east-1",
            }
            make_bucket(variables)
            yield variables
        finally:
            process.stdin.close()


def make_bucket(variables: dict[str, str]) -> None:
    import botocore.session

    session = botocore.session.get_session()
    session.set_credentials(variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"])
    client = session.create_client(
        "s3", region_name=variables["AWS_DEFAULT_REGION"], endpoint_url=variables["AWS_ENDPOINT_URL"]
    )
    client.create_bucket(Bucket=BUCKET)
    client.close()
