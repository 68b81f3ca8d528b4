#!/usr/bin/python3
"""Stands in for the guest and breaks the protocol in the way that the command's text names."""
import ctypes
import os
import socket
import struct
import sys
import time

# Into a user namespace, as the guest does where containers have host ids of their own: the worker waits for it.
if os.getuid() != 1000:
    ctypes.CDLL(None).unshare(0x10000000)
    while not open("/proc/self/uid_map").read():
        time.sleep(0.001)

secret = bytes.fromhex(os.environ["ASSAY_GUEST_SECRET"])
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])


def send(kind, number=0, payload=b"", stream=0, length=None):
    link.sendall(struct.pack("<IBBHQ", len(payload) if length is None else length, kind, stream, 0, number) + payload)


def receive(count):
    data = b""
    while len(data) < count:
        piece = link.recv(count - len(data))
        if not piece:
            time.sleep(1000)  # cut off: stay, so that only the worker ends this sandbox
        data += piece
    return data


def started(number):
    send(5, number, struct.pack("<I", 2))


def output(number, offset, data, stream=1):
    send(7, number, struct.pack("<Q", offset) + data, stream)


def end(number, stdout, status=0):
    send(9, number, struct.pack("<iQQQQQQI", status, 0, 0, 0, stdout, 0, 5, 0))
    send(10, number, struct.pack("<QQ", stdout, 0))


def flood(number):
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    offset = 0
    while True:
        output(number, offset, b"x" * 262144)
        offset += 262144


attacks = {
    "behave": lambda n: (started(n), output(n, 0, b"fine\n"), end(n, 5)),
    "garbage": lambda n: (started(n), link.sendall(os.urandom(4096))),
    "giant": lambda n: (started(n), send(7, n, b"", 1, length=0xFFFFFFFF)),
    "giant control": lambda n: (started(n), send(9, n, b"", 0, length=1 << 20)),
    "skip bytes": lambda n: (started(n), output(n, 10, b"x")),
    "repeat bytes": lambda n: (started(n), output(n, 0, b"x"), output(n, 0, b"x")),
    "output before start": lambda n: output(n, 0, b"x"),
    "another's output": lambda n: (started(n), output(n + 99, 0, b"x")),
    "exit too much": lambda n: (started(n), end(n, 1 << 40)),
    "closed before exit": lambda n: (started(n), send(10, n, bytes(16))),
    "bad status": lambda n: (started(n), end(n, 0, 0x7F)),
    "failed after start": lambda n: (started(n), send(6, n, struct.pack("<II", 5, 2))),
    "stored more than it is": lambda n: (started(n), send(2, n, struct.pack("<QQQ", 1 << 50, 0, 0))),
    "second hello": lambda n: send(1, 0, struct.pack("<IQ", 1, 0) + secret),
    "third stream": lambda n: (started(n), output(n, 0, b"x", 3)),
}

send(1, 0, struct.pack("<IQ", 1, 0) + secret)
while True:
    length, kind, _, _, number = struct.unpack("<IBBHQ", receive(16))
    payload = receive(length)
    if kind == 64:
        send(3)
    if kind == 65:
        parts, at = [], 20
        while at < len(payload):
            (size,) = struct.unpack_from("<I", payload, at)
            parts.append(payload[at + 4 : at + 4 + size].decode())
            at += 4 + size
        attacks[parts[3]](number)
