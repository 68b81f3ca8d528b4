import { describe, expect, test } from 'vitest';
import { gradeInContainer } from './grading-container.ts';

/** Runs lines of shell as the grader, each with its output and code on lines of their own. */
async function say(lines: readonly string[], prepare?: string): Promise<string[]> {
  const command = ['I="$ASSAY_ISOLATED run"', ...lines.map((line) => `{ ${line}; } 2>&1; echo "=$?"`)].join('\n');
  const { stdout } = await gradeInContainer({ command, ...(prepare === undefined ? {} : { prepare }) });
  return stdout.trim().split('\n');
}

describe.concurrent('a program that a test has run', () => {
  test('runs as the agent, and ends as it ended', async () => {
    expect(
      await say([
        'id -u; $I -- id -u',
        '$I -- sh -c "exit 7"',
        '$I -- sh -c "kill -9 \\$\\$"',
        '$I -- /nonexistent',
        '$I --cwd /nonexistent --status-fd 3 -- true 3>&1',
        '$I --timeout 0.3 --status-fd 3 -- sleep 1000 3>&1',
        '$I --status-fd 3 -- sh -c "exit 9" 3>&1',
        '$I --status-fd 3 -- sh -c "kill -TERM \\$\\$" 3>&1',
      ]),
    ).toEqual([
      ...['64990', '1000', '=0', '=7', '=137', '=127'],
      ...[
        'not-started No such file or directory',
        '=127',
        'timed-out',
        '=124',
        'exited 9',
        '=9',
        'signaled 15',
        '=143',
      ],
    ]);
  });

  test('gets its input whole, and its output comes back whole and apart', async () => {
    expect(
      await say([
        'echo hello | $I -- cat',
        'head -c 3000000 /dev/urandom > /tmp/in; $I --max-output 4000000 -- cat < /tmp/in | cmp - /tmp/in',
        '$I -- sh -c "echo out; echo err >&2" 2>/dev/null',
        '$I -- sh -c "echo x > /dev/stderr; echo y > /dev/stdout"  | sort',
        'head -c 3000000 /dev/zero | $I -- true',
        'printf "a\\nb" | $I -- wc -c',
      ]),
    ).toEqual(['hello', '=0', '=0', 'out', '=0', 'x', 'y', '=0', '=0', '3', '=0']);
  });

  test('cannot print without end', async () => {
    expect(await say(['$I --max-output 10 --status-fd 3 -- yes 3>/tmp/s | wc -c; cat /tmp/s'])).toEqual([
      '10',
      'output-limit',
      '=0',
    ]);
  });

  test('leaves nothing running, whatever it started and wherever it hid', async () => {
    const hide =
      'sleep 1001 & setsid sleep 1002 & (setsid sh -c \\"sleep 1003 & sleep 1004\\" &) ; nohup sleep 1005 >/dev/null 2>&1 & echo started';
    expect(
      await say([
        `$I -- sh -c "${hide}"`,
        '$I --timeout 0.5 -- sh -c "trap : TERM; setsid sleep 1006 & sleep 1007"',
        // They were killed; how soon they are gone is the kernel's affair.
        'for i in $(seq 600); do pgrep -x sleep >/dev/null || break; sleep 0.1; done; pgrep -x sleep | wc -l',
      ]),
    ).toEqual(['started', '=0', '=124', '0', '=0']);
  });

  test('is not held back by a child that goes on printing', async () => {
    expect(await say(['$I --timeout 30 -- sh -c "yes & exit 3" >/dev/null'])).toEqual(['=3']);
  });

  test('has the environment of its own user and what the test adds, nothing of the grader', async () => {
    const lines = await say(['SECRET=answer $I --env A=b -- env | sort']);
    expect(lines).toEqual(['A=b', 'HOME=/home/agent', 'LANG=C.UTF-8', 'PATH=/usr/local/bin:/usr/bin:/bin', '=0']);
  });

  test('many at a time do not meet', async () => {
    const lines = await say([
      'for i in 1 2 3 4 5 6 7 8; do echo $i | $I -- sh -c "read n; sleep 0.1; echo got \\$n" & done; wait',
    ]);
    expect(lines.toSorted()).toEqual(['=0', ...[1, 2, 3, 4, 5, 6, 7, 8].map((n) => `got ${n}`)]);
  });
});

describe.concurrent('what the agent cannot do', () => {
  test('read the tests, the reports, the environment or the memory of the tests, or signal them', async () => {
    const { stdout } = await gradeInContainer({
      files: [{ path: '/grader/tests/answers', content: 'forty-two' }],
      command: `
        export ANSWER=forty-two
        try() { $ASSAY_ISOLATED run -- sh -c "$1" >/tmp/o 2>&1 && echo "DONE $1" || echo "refused"; grep -l forty-two /tmp/o; }
        try "cat /grader/tests/answers"
        try "ls /grader /grader/tests"
        try "echo forged > /grader/reports/report.tap"
        try "mv /grader /grader2"
        try "cat /proc/$$/environ"
        try "cat /proc/$$/mem"
        try "ls /proc/$$/fd"
        try "cat /proc/$$/cwd/answers"
        try "kill -9 $$"
        try "kill -STOP $$"
        try "kill -9 1"
        try "echo x > /run/assay/isolated"
        try "ln -s /x /run/assay/lib/y"
        try "setpriv --reuid 64990 id"
        try "su -c id"
        true`,
    });
    expect(stdout.trim().split('\n')).toEqual(Array.from({ length: 15 }, () => 'refused'));
  });

  test('get a descriptor of the tests', async () => {
    const lines = await say(["exec 7</grader/tests; $I -- sh -c \"ls /proc/self/fd | grep -vx 3 | tr '\\n' ' '\""]);
    expect(lines[0]).toBe('0 1 2 =0');
  });

  test('make a test pass by killing or replacing the spawner: it can only be lost, or lie about itself', async () => {
    const lines = await say([
      '$I --status-fd 3 -- sh -c "pkill -9 -x isolated 2>/dev/null; sleep 10" 3>&1',
      '$I --status-fd 3 -- true 3>&1',
    ]);
    expect(lines[0]).toBe('lost');
    // Whoever asks while the kernel still takes it down is lost too.
    expect(lines[2]).toMatch(/^(unavailable @assay-agent: Connection refused|lost)$/);
  });

  test.each([
    ['a frame too long', '\\xff\\xff\\xff\\xff\\x10', 'lost'],
    ['an unknown frame', '\\x00\\x00\\x00\\x00\\x63', 'lost'],
    ['half a frame', '\\x04\\x00', 'lost'],
    ['an exit of the wrong size', '\\x01\\x00\\x00\\x00\\x13\\x00', 'lost'],
    ['a stopped state instead of an end', '\\x04\\x00\\x00\\x00\\x13\\x7f\\x13\\x00\\x00', 'lost'],
    ['an impossible errno', '\\x04\\x00\\x00\\x00\\x12\\xff\\xff\\xff\\xff', 'not-started for no known reason'],
    ['silence', '', 'timed-out'],
  ])('confuse the side of the tests with %s', async (_, bytes, end) => {
    const fake = [
      'import socket, time',
      's = socket.socket(socket.AF_UNIX); s.bind("\\0assay-fake"); s.listen()',
      'open("/tmp/fake-ready", "w").close()',
      'c, _ = s.accept(); c.recv(100000)',
      `c.sendall(b"${bytes}")`,
      bytes === '' ? 'time.sleep(60)' : 'c.close()',
    ].join('\n');
    const lines = await say(
      [
        'while ! [ -e /tmp/fake-ready ]; do sleep 0.01; done',
        `$I --socket @assay-fake --timeout ${bytes === '' ? 1 : 30} --status-fd 3 -- true 3>&1`,
      ],
      `cat > /tmp/fake.py <<'END'\n${fake}\nEND\npython3 -I /tmp/fake.py >/dev/null 2>&1 &`,
    );
    expect(lines[1]).toBe(end);
  });

  test('hold up a test for longer than it waits, by a spawner that takes no connections', async () => {
    const full = [
      'import socket, time',
      's = socket.socket(socket.AF_UNIX); s.bind("\\0assay-fake"); s.listen(0)',
      'held = [socket.socket(socket.AF_UNIX) for _ in range(9)]',
      'for each in held: each.setblocking(False); each.connect_ex("\\0assay-fake")',
      'open("/tmp/fake-ready", "w").close(); time.sleep(600)',
    ].join('\n');
    const lines = await say(
      [
        'while ! [ -e /tmp/fake-ready ]; do sleep 0.01; done',
        'timeout 20 $I --socket @assay-fake --timeout 0.5 --status-fd 3 -- true 3>&1',
      ],
      `cat > /tmp/fake.py <<'END'\n${full}\nEND\npython3 -I /tmp/fake.py >/dev/null 2>&1 &`,
    );
    expect(lines).toEqual(['=0', 'timed-out', '=124']);
  });

  test('serve the tests with a program of the same user, or of root', async () => {
    const lines = await say([
      ': >/tmp/own; $ASSAY_ISOLATED serve @own >>/tmp/own & while ! grep -q ready /tmp/own; do sleep 0.01; done; $I --socket @own --status-fd 3 -- true 3>&1; kill %1',
    ]);
    expect(lines[0]).toContain('unavailable the spawner runs as this very user');
  });
});

test('the spawner survives requests that are malformed', async () => {
  const attack = [
    'import os, socket, struct',
    'def send(data):',
    '  s = socket.socket(socket.AF_UNIX); s.connect("\\0assay-agent")',
    '  try: s.sendall(data); s.shutdown(1); s.recv(100)',
    '  except OSError: pass',
    '  s.close()',
    'frame = lambda kind, body: struct.pack("<IB", len(body), kind) + body',
    'word = lambda w: struct.pack("<I", len(w)) + w',
    'send(b""); send(b"\\x01"); send(frame(9, b"x")); send(struct.pack("<IB", 2**32 - 1, 1))',
    'send(frame(1, struct.pack("<II", 2**31, 2**31))); send(frame(1, struct.pack("<III", 1, 0, 2**32 - 1)))',
    'send(frame(1, struct.pack("<II", 1, 0) + word(b"/") + word(b"a\\0b"))); send(frame(1, struct.pack("<II", 1, 0) + word(b"/") + word(b"")))',
    'send(frame(1, struct.pack("<II", 4096, 4096) + word(b"/") + b"\\0" * 40000))',
    'for _ in range(300): send(os.urandom(200))',
  ].join('\n');
  const lines = await say([`cat > /tmp/a.py <<'END'\n${attack}\nEND\npython3 -I /tmp/a.py`, '$I -- echo alive']);
  expect(lines).toEqual(['=0', 'alive', '=0']);
});
