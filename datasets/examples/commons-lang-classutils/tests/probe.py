import os

from assay_isolated import run

BUILD = """
set -e
mkdir -p /tmp/probe
cat > /tmp/probe/Probe.java
javac -cp /tmp/classes -d /tmp/probe /tmp/probe/Probe.java
"""
NOT_FOUND = "thrown java.lang.ClassNotFoundException"


def build():
    with open(os.path.join(os.environ["ASSAY_TESTS"], "Probe.java"), "rb") as file:
        result = run(["sh", "-c", BUILD], input=file.read(), timeout=120)
    assert result.ok, result


def agree(cases):
    lines = "".join(name + "\n" for name, _ in cases)
    result = run(["java", "-Xss256k", "-Xmx256m", "-cp", "/tmp/probe:/tmp/classes", "Probe"], input=lines, timeout=120)
    found = result.stdout.decode().splitlines()
    wrong = [(name[:60], is_, should) for (name, should), is_ in zip(cases, found) if is_ != should]
    assert result.ok and len(found) == len(cases) and not wrong, (wrong, result)
