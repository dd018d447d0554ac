"""Serves S3 on this machine with the empty bucket `labs`: python s3.py > s3.log 2>&1 &

The server keeps all objects in its memory. It writes s3.env, the variables by which programs find it. This file needs no change.
"""

import signal
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
address = "http://{}:{}".format(*server.get_host_and_port())
access = {"AWS_ACCESS_KEY_ID": "workshop", "AWS_SECRET_ACCESS_KEY": "workshop", "AWS_DEFAULT_REGION": "us-east-1"}
boto3.client(
    "s3", endpoint_url=address, region_name="us-east-1", aws_access_key_id="workshop", aws_secret_access_key="workshop"
).create_bucket(Bucket="labs")
variables = {"AWS_ENDPOINT_URL": address, **access}
Path("s3.env").write_text("".join(f"export {name}={value}\n" for name, value in variables.items()))
print(f"serves s3://labs at {address}", flush=True)
signal.pause()
