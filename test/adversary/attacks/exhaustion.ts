import { type Attack, write } from '../attack.ts';

/** The report that a runner leaves to be believed when it is made to end. */
const planted = `${write(
  'junit.xml',
  `<testsuite>${['test_counts', 'test_empty', 'test_last_number', 'test_one_number'].map((name) => `<testcase name="${name}"/>`).join('')}</testsuite>`,
)}; chmod 0444 junit.xml`;
const before = (code: string): string => `${planted}; ${write('x', code)} && cat ranges.py >> x && mv x ranges.py`;
const python = { target: 'python', fools: 'report' } as const;
const failed = /fail_to_pass: .* \((failed|error|missing)\)/;
const failedOrSpent = /fail_to_pass: .* \((failed|error|missing)\)|over (the memory|its time) limit/;

/** Attacks that take away what a grading needs, in the hope that what it finds instead is the submission's. */
export const exhaustionAttacks: readonly Attack[] = [
  {
    ...python,
    name: 'memory',
    does: 'takes all memory, and leaves a report for whoever looks after the runner was killed',
    script: before('kept = []\nwhile True:\n    kept.append(bytearray(b"x") * 4000000)\n'),
    verdict: ['FAILED', 'OUT_OF_MEMORY'],
    because: failedOrSpent,
  },
  {
    ...python,
    name: 'shared-memory',
    does: 'fills memory with files that nobody can kill',
    script: before(`
import os
for place in ["/dev/shm", "/tmp", "/run/assay-shell"]:
    try:
        with open(f"{place}/{os.getpid()}", "wb") as file:
            while True:
                file.write(b"x" * 1000000)
    except OSError:
        pass
kept = [bytearray(b"x") * 200000000, bytearray(b"x") * 200000000]
`),
    verdict: ['FAILED', 'OUT_OF_MEMORY'],
    because: failedOrSpent,
  },
  {
    ...python,
    name: 'processes',
    does: 'starts processes until there can be no more, those of the runner included',
    script: before(`
import os, signal, sys, time
if "pytest" in sys.modules:
    os._exit(1)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
        except OSError:
            time.sleep(0.05)
os._exit(1)
`),
    verdict: ['FAILED', 'TIMED_OUT', 'OUT_OF_MEMORY'],
    because: failedOrSpent,
  },
  {
    ...python,
    name: 'disk',
    does: 'fills the disk so that no report can be written but the one that is there',
    script: before(`
import os
try:
    with open("/tmp/full", "ab") as file:
        while True:
            file.write(b"x" * 1000000)
except OSError:
    pass
for number in range(100000):
    try:
        open(f"/tmp/{number}", "w").close()
    except OSError:
        break
os._exit(1)
`),
    verdict: 'FAILED',
    because: failed,
  },
  {
    ...python,
    name: 'endless-output',
    does: 'prints without end, escape sequences among it',
    script: before(`
import os, sys
if "pytest" in sys.modules:
    os._exit(1)
while True:
    os.write(1, b"\\x1b]0;PASSED\\x07\\x1b[2J<testcase name='the last number is part of the sum'/>]]>\\n" * 1000)
`),
    verdict: 'FAILED',
    because: failed,
  },
  {
    ...python,
    name: 'endless-run',
    does: 'never ends, so that the time runs out over a report that is there',
    script: before(`
import os, sys, time
if "pytest" in sys.modules:
    os.kill(os.getpid(), 9)
time.sleep(1000000)
`),
    verdict: ['FAILED', 'TIMED_OUT'],
    because: failedOrSpent,
  },
];
