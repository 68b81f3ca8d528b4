"""A subscriber that nobody here wrote a library for: nats-py, and what protoc makes of the published protos.

It prints a line of JSON for every event, tells what it finds in the stream by number, and then tries to write wherever a
reader must not. Arguments: the address of nats-server, the file with the user, the folder with the generated code.
"""

import asyncio
import json
import sys

address, auth_file, generated = sys.argv[1:4]
sys.path.insert(0, generated)

import nats  # noqa: E402
from google.protobuf.json_format import MessageToDict  # noqa: E402

from assay.events.v1 import events_pb2  # noqa: E402


def say(**what):
    print(json.dumps(what), flush=True)


def decode(subject, data):
    event = events_pb2.Event.FromString(data)
    return {"subject": subject, "kind": event.WhichOneof("event"), "event": MessageToDict(event)}


async def main():
    with open(auth_file, encoding="utf-8") as file:
        user = json.load(file)
    errors = []

    async def on_error(error):
        errors.append(str(error))

    client = await nats.connect(
        address, user=user["user"], password=user["password"], error_cb=on_error, allow_reconnect=False
    )

    async def on_event(message):
        say(said="event", **decode(message.subject, message.data))

    await client.subscribe("assay.events.>", cb=on_event)
    await client.flush()
    say(said="subscribed")
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := (await lines.readline()).decode().strip():
        verb, _, rest = line.partition(" ")
        if verb == "get":
            request = json.dumps({"seq": int(rest)}).encode()
            found = await client.request("$JS.API.DIRECT.GET.ASSAY_EVENTS", request, timeout=5)
            say(said="got", **decode(found.headers["Nats-Subject"], found.data))
        if verb == "publish":
            errors.clear()
            await client.publish(rest, b"forged")
            await client.flush()
            # The server's refusal comes before its answer to the flush, but the library tells it when it finds the time.
            for _ in range(200):
                if errors:
                    break
                await asyncio.sleep(0.05)
            say(said="published", subject=rest, errors=errors)
    await client.close()


asyncio.run(main())
