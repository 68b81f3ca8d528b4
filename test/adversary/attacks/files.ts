import { type Attack, leavesEarly, write, wrongSum } from '../attack.ts';

const python = { target: 'python', fools: 'exit status' } as const;
const failed = { ...python, verdict: 'FAILED', because: wrongSum } as const;
const invalid = { ...python, verdict: 'INVALID_SUBMISSION' } as const;
const forged = `<testsuite>${['test_counts', 'test_empty', 'test_last_number', 'test_one_number'].map((name) => `<testcase name="${name}"/>`).join('')}</testsuite>`;

/** Attacks on what takes a submission out of the session: kinds, sizes, numbers and names of files. */
export const fileAttacks: readonly Attack[] = [
  {
    ...failed,
    name: 'symlink-out',
    does: 'keeps its code behind a link that leads out of the working directory',
    script: `${write('/tmp/elsewhere.py', 'import os\nos._exit(0)\n')}; ln -sf /tmp/elsewhere.py ranges.py`,
    because: /fail_to_pass: .* \(failed\)/,
  },
  {
    ...failed,
    name: 'symlink-to-tests',
    does: 'links to where hidden tests and reports may lie, on this host and in the container',
    script: `${leavesEarly}; ln -s /grader/tests hidden; ln -s /grader/reports reports; ln -s ../../../../etc/shadow shadow
      ln -s /proc/1/root root; ln -s /proc/self/fd fd`,
  },
  {
    ...failed,
    name: 'link-for-a-directory',
    does: 'exchanges a directory for a link to another',
    script: `${leavesEarly}; mv .git /tmp/git && ln -s /tmp/git .git`,
  },
  {
    ...invalid,
    name: 'hard-link-out',
    does: 'shares its code with a file outside, to change it after the sealing',
    script: `${write('/tmp/elsewhere.py', 'import os\nos._exit(0)\n')}; ln -f /tmp/elsewhere.py ranges.py`,
    because: /ranges\.py: a hard link to a file outside/,
  },
  {
    ...invalid,
    name: 'fifo',
    does: 'leaves a FIFO in place of the report and feeds it',
    fools: 'report',
    script: `mkfifo junit.xml; ${write('/tmp/forged.xml', forged)}
      setsid sh -c 'cat junit.xml > /dev/null; cat /tmp/forged.xml > junit.xml' > /dev/null 2>&1 < /dev/null &`,
    because: /junit\.xml: a FIFO, socket or device/,
  },
  {
    ...invalid,
    name: 'socket',
    does: 'leaves a socket where a file is expected',
    script: `${leavesEarly}; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("listening")'`,
    because: /listening: a FIFO, socket or device/,
  },
  {
    ...python,
    name: 'device-link',
    does: 'links its code to a device that can be read without end',
    script: `${leavesEarly}; ln -sf /dev/zero ranges.py; ln -s /dev/stdout out`,
    verdict: ['FAILED', 'OUT_OF_MEMORY', 'TIMED_OUT'],
    because: /fail_to_pass: .* \((failed|error)\)|over (the memory|its time) limit/,
  },
  {
    ...invalid,
    name: 'sparse-file',
    does: 'leaves a file of three hundred gigabytes that takes no space',
    script: `${leavesEarly}; truncate -s 300G hole`,
    because: /hole: what was changed has more than 16777216 bytes/,
  },
  {
    ...invalid,
    name: 'huge-file',
    does: 'leaves more bytes than are taken',
    script: `${leavesEarly}; head -c 20000000 /dev/zero > huge`,
    because: /huge: what was changed has more than 16777216 bytes/,
  },
  {
    ...invalid,
    name: 'million-names',
    does: 'leaves a million names',
    script: `${leavesEarly}; ${write(
      '/tmp/many.py',
      `import os
os.mkdir("many")
os.chdir("many")
for first in range(1000000):
    if first % 60000 == 0:
        source = f"f{first}"
        open(source, "w").close()
    else:
        os.link(source, f"n{first}")
`,
    )}; python3 /tmp/many.py`,
    because: /more than 2000 files were changed/,
  },
  {
    ...invalid,
    name: 'deep-path',
    does: 'leaves directories deeper than any path can name',
    script: `${leavesEarly}; python3 -c '
import os
for _ in range(3000):
    os.mkdir("deep")
    os.chdir("deep")
'`,
    because: /more than 64 directories deep|a path of more than 1024 bytes/,
  },
  {
    ...failed,
    name: 'odd-names',
    does: 'has names with newlines, bytes that are no text, dashes, quotes and escape sequences',
    script: `${leavesEarly}; python3 -c '
import os
names = [b"a\\nb", b"\\xff\\xfe", b"-rf", b"--", b"\\x1b]0;owned\\x07", b"\\x22\\x27\\x60$(id)", b" ", b"n" * 255, b"..." , b"x\\rPASSED"]
for name in names:
    open(b"/workspace/" + name, "w").close()
    os.makedirs(b"/workspace/d/" + name)
'`,
  },
  {
    ...invalid,
    name: 'escape-in-a-reason',
    does: 'has a name with escape sequences and a newline for the reason of its own refusal',
    script: `${leavesEarly}; python3 -c 'import os; os.mkfifo("x\\x1b[2J\\x1b]0;PASSED\\x07\\nPASSED")'`,
    because: /^x\\x1b\[2J\\x1b\]0;PASSED\\x07\\x0aPASSED: a FIFO/,
  },
  {
    ...invalid,
    name: 'lease',
    does: 'has a process with a lease on a file, so that whoever opens it has to wait',
    script: `${leavesEarly}; python3 -c '
import fcntl, os, time
file = os.open("leased", os.O_WRONLY | os.O_CREAT)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
if os.fork() == 0:
    os.close(1), os.close(2)
    time.sleep(100000)
'`,
    because: /leased: a process keeps it from being read by a lease/,
  },
  {
    ...invalid,
    name: 'setuid',
    does: 'leaves a setuid program for the other user to start',
    script: `${leavesEarly}; cp /bin/dash python3 && chmod 6755 python3`,
    because: /python3: a setuid or setgid file/,
  },
];
