"""A device plugin without devices: it speaks the kubelet's API v1beta1, and announces GPUs that do not exist.

A plugin serves four calls on a socket of its own, and registers that socket with the kubelet of its node. It needs grpcio, for
HTTP/2. The messages have strings and other messages as their only fields, so that a few lines encode them (api.proto in
k8s.io/kubelet, pkg/apis/deviceplugin/v1beta1, has their definitions).
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

FOLDER = Path("/var/lib/kubelet/device-plugins")
RESOURCE = os.environ.get("RESOURCE", "workshop.windlass.dev/gpu")
DEVICES = [f"gpu-{number}" for number in range(int(os.environ.get("DEVICES", "2")))]
SOCKET = FOLDER / f"{RESOURCE.replace('/', '-')}.sock"
BROKEN = Path("/tmp/broken")
"""A file with the name of a device that is unhealthy."""


def field(number: int, content: str | bytes) -> bytes:
    """Encodes a field of a protobuf message whose content is a string or a message: tag, length, content."""
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    """Encodes a number in groups of seven bits, the lowest first; each but the last has its highest bit set."""
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def fields(message: bytes) -> list[tuple[int, bytes]]:
    """Decodes a message whose fields are strings or messages."""
    found, at = [], 0
    while at < len(message):
        tag, at = read_varint(message, at)
        length, at = read_varint(message, at)
        found.append((tag >> 3, message[at : at + length]))
        at += length
    return found


def read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Returns a number and the place after it."""
    value = shift = 0
    while True:
        value |= (message[at] & 127) << shift
        if message[at] < 128:
            return value, at + 1
        shift, at = shift + 7, at + 1


def list_and_watch(request, context):
    """Sends all devices with their health, and again after each change."""
    sent = None
    while context.is_active():
        broken = BROKEN.read_text().split() if BROKEN.exists() else []
        health = {device: "Unhealthy" if device in broken else "Healthy" for device in DEVICES}
        if health != sent:
            print("devices:", " ".join(f"{device}={state}" for device, state in health.items()), flush=True)
            yield b"".join(field(1, field(1, device) + field(2, state)) for device, state in health.items())
            sent = health
        time.sleep(0.5)


def allocate(request, context):
    """Says what each container gets with the devices that the kubelet chose. A real plugin adds files below /dev."""
    response = b""
    for _, container in fields(request):
        chosen = ",".join(device.decode() for _, device in fields(container))
        print("allocated:", chosen, flush=True)
        response += field(1, field(1, field(1, "WORKSHOP_VISIBLE_DEVICES") + field(2, chosen)))
    return response


def nothing(request, context):
    """Answers with an empty message: no options, and nothing to do before a container starts."""
    return b""


def serve() -> grpc.Server:
    """Serves the calls of v1beta1.DevicePlugin on a socket of its own."""
    server = grpc.server(ThreadPoolExecutor(8))
    calls = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(nothing),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(list_and_watch),
        "Allocate": grpc.unary_unary_rpc_method_handler(allocate),
        "PreStartContainer": grpc.unary_unary_rpc_method_handler(nothing),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", calls)])
    SOCKET.unlink(missing_ok=True)
    server.add_insecure_port(f"unix://{SOCKET}")
    server.start()
    return server


def register() -> None:
    """Tells the kubelet the socket's name and the resource."""
    with grpc.insecure_channel(f"unix://{FOLDER}/kubelet.sock") as channel:
        call = channel.unary_unary("/v1beta1.Registration/Register")
        call(field(1, "v1beta1") + field(2, SOCKET.name) + field(3, RESOURCE), timeout=10)
    print("registered", RESOURCE, flush=True)


def main() -> None:
    server = serve()
    register()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
