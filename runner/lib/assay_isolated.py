"""ISOLATED tests in Python: every program of the submission runs as another user, which sees inputs and no answers.

    from assay_isolated import main, run, test

    @test("adds two numbers")
    def _():
        result = run(["python3", "add.py", "2", "3"])
        assert result.stdout == b"5\\n", result

    main()

Start it with `python3 -I`, and never import anything from the workspace: what is imported can change this very process.
"""

import os
import re
import subprocess
import sys
import time
import traceback
from xml.sax.saxutils import quoteattr

ISOLATED = os.environ.get("ASSAY_ISOLATED", "/run/assay/isolated")
REPORTS = os.environ.get("ASSAY_REPORTS", ".")
WORKSPACE = os.environ.get("ASSAY_WORKSPACE", "/workspace")


class Result:
    """How a program ended. `end` is exited, signaled, timed-out, output-limit, not-started, lost or unavailable."""

    def __init__(self, argv, end, detail, stdout, stderr):
        self.argv, self.end, self.detail, self.stdout, self.stderr = argv, end, detail, stdout, stderr
        self.code = int(detail) if end == "exited" else None
        self.signal = int(detail) if end == "signaled" else None

    @property
    def ok(self):
        return self.code == 0

    def __repr__(self):
        return f"<{self.argv!r} {self.end} {self.detail} stdout={self.stdout[:400]!r} stderr={self.stderr[-1000:]!r}>"


def run(argv, *, input=b"", timeout=10.0, cwd=None, env=None, max_output=1 << 20):
    """Runs a program as the agent's user and returns its Result; raises only where no program could be asked for."""
    if isinstance(input, str):
        input = input.encode()
    read_end, write_end = os.pipe()
    command = [ISOLATED, "run", "--timeout", str(timeout), "--max-output", str(max_output)]
    command += ["--cwd", cwd or WORKSPACE, "--status-fd", str(write_end)]
    for name, value in (env or {}).items():
        command += ["--env", f"{name}={value}"]
    try:
        process = subprocess.Popen(
            command + ["--"] + [str(word) for word in argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[write_end],
        )
        os.close(write_end)
        write_end = -1
        stdout, stderr = process.communicate(input)
        status = os.read(read_end, 4096).decode(errors="replace").strip()
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)
    end, _, detail = status.partition(" ")
    if end in ("", "unavailable"):
        raise RuntimeError(f"no program of the agent could be run: {detail or stderr.decode(errors='replace')}")
    return Result(argv, end, detail, stdout, stderr)


_tests = []


def test(name):
    """Registers a function as the test of this name."""

    def register(function):
        _tests.append((name, function))
        return function

    return register


def main(report="junit.xml"):
    """Runs every test in order, writes a JUnit report for the grader, and ends the process."""
    cases, failed = [], 0
    for name, function in _tests:
        started = time.monotonic()
        problem = None
        try:
            if hasattr(function(), "__await__"):
                raise TypeError("an asynchronous test; expected a function that is done when it returns")
        except AssertionError as error:
            problem = ("failure", f"{error}\n{traceback.format_exc()}")
        except Exception:
            problem = ("error", traceback.format_exc())
        failed += problem is not None
        cases.append((name, time.monotonic() - started, problem))
        print("ok" if problem is None else "not ok", "-", name, flush=True)
        if problem is not None:
            print(problem[1], file=sys.stderr, flush=True)
    _write(os.path.join(REPORTS, report), cases)
    sys.exit(1 if failed else 0)


def _write(path, cases):
    lines = ["<?xml version='1.0' encoding='utf-8'?>", "<testsuites>", "<testsuite name='isolated'>"]
    for name, seconds, problem in cases:
        lines.append(f"<testcase name={_attribute(name)} time='{seconds:.3f}'>")
        if problem is not None:
            lines.append(f"<{problem[0]} message={_attribute(problem[1][:4000])}/>")
        lines.append("</testcase>")
    lines += ["</testsuite>", "</testsuites>", ""]
    # The report appears whole or not at all.
    with open(path + ".part", "w", encoding="utf-8", errors="replace") as file:
        file.write("\n".join(lines))
    os.replace(path + ".part", path)


def _attribute(text):
    printable = re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
    return quoteattr(printable, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
