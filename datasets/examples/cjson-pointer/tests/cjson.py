import os

from assay_isolated import run

BUILD = """
set -e
mkdir -p /tmp/probe
cat > /tmp/probe/probe.c
cc -O1 -o /tmp/probe/probe -I. /tmp/probe/probe.c cJSON.c cJSON_Utils.c -lm
"""


def build():
    with open(os.path.join(os.environ["ASSAY_TESTS"], "probe.c"), "rb") as file:
        result = run(["sh", "-c", BUILD], input=file.read(), timeout=60)
    assert result.ok, result


def ask(kind, jobs):
    """One line of output for each job, a document and what to do with it."""
    lines = "".join(f"{kind}\t{document}\t{rest}\n" for document, rest in jobs)
    result = run(["/tmp/probe/probe"], input=lines)
    assert result.ok, result
    return result.stdout.decode().splitlines()


def agree(kind, cases):
    found = ask(kind, [(document, rest) for document, rest, _ in cases])
    assert found == [answer for *_, answer in cases], list(zip(cases, found))
