import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, describe, expect, test } from 'vitest';
import { SessionGone } from '../../../services/sandbox-worker/grading/in-place.ts';
import { plainHeader } from '../../../services/sandbox-worker/submission/submission-format.ts';
import { encodeHeader, padding } from '../../../services/sandbox-worker/submission/tar-header.ts';
import { nothingLeft } from '../docker/scratch-host.ts';
import { createSampleImage } from '../submission/sample-image.ts';
import { createGradingHost } from './grading-host.ts';

const all = await createGradingHost();
/** With files in the workspace. */
const filled = createSampleImage(all.host);

afterAll(async () => {
  expect(await all.close()).toEqual(nothingLeft);
});

const role = { assurance: 'ISOLATED', tests: ['it works'] };
const tap = [{ format: 'tap', path: 'report.tap' }];
const passing = 'printf "1..1\\nok 1 - it works\\n" > $ASSAY_REPORTS/report.tap';
/** Runs what the submission has, as the agent, and believes its status. */
const believing = `if "$ASSAY_ISOLATED" run --timeout 50 -- sh ./solve.sh; then ${passing}
else printf "1..1\\nnot ok 1 - it works\\n" > $ASSAY_REPORTS/report.tap; exit 1; fi`;

// Side by side, since a grading waits for its containers most of its time; each of them then takes longer.
describe.concurrent('a grading', () => {
  test('ends as TIMED_OUT where the tests take too long, with what was printed until then', async () => {
    const command = `echo begun; "$ASSAY_ISOLATED" run --timeout 50 -- sh -c 'sleep 600'; ${passing}`;
    const small = await all.sample({ command, timeout: 5, reports: tap, fail_to_pass: role }, { none: '' });
    const { judgement, stdout, runs } = await all.grade(small, 'true');
    expect(judgement).toMatchObject({ verdict: 'TIMED_OUT', reasons: ['tests: over its time limit'], trainable: true });
    expect(stdout.bytes.toString()).toBe('begun\n');
    expect(runs[0]?.command?.durationMs).toBeGreaterThanOrEqual(5_000);
  });

  test('ends as OUT_OF_MEMORY where the submission needs too much', async () => {
    const small = await all.sample({ command: believing, reports: tap, fail_to_pass: role }, { none: '' });
    const { judgement, peakMemoryBytes } = await all.grade(
      small,
      `echo 'python3 -c "x = bytearray(10**9); print(len(x))"' > /workspace/solve.sh`,
    );
    expect(judgement).toMatchObject({ verdict: 'OUT_OF_MEMORY', trainable: true });
    expect(peakMemoryBytes).toBeGreaterThan(200_000_000);
  });

  test('ends as FAILED where the build fails, and runs no test', async () => {
    const prepare = { command: 'echo building; exit 3', timeout: 20 };
    const small = await all.sample({ prepare, command: passing, reports: tap, fail_to_pass: role }, { none: '' });
    const { judgement, runs, stdout } = await all.grade(small, 'true');
    expect(judgement).toMatchObject({ verdict: 'FAILED', reasons: ['prepare: exited with 3'] });
    expect(runs[0]).toMatchObject({ prepare: { end: { kind: 'exited', code: 3 } }, command: undefined });
    expect(stdout.bytes.toString()).toBe('building\n');
  });

  test('builds as the agent and tests as the grader, and each can write to its own streams by name', async () => {
    const prepare = { command: 'id -u > built; echo built > /dev/stderr' };
    const command = `echo tests > /dev/stdout; [ "$(cat /workspace/built) $(id -u)" = '1000 64990' ] && ${passing}`;
    const small = await all.sample({ prepare, command, reports: tap, fail_to_pass: role }, { none: '' });
    const { judgement, stdout, stderr } = await all.grade(small, 'true');
    expect([stdout.bytes.toString(), stderr.bytes.toString()]).toEqual(['tests\n', 'built\n']);
    expect(judgement.verdict).toBe('PASSED');
  });

  test('gives neither of its users a capability, a group or a way to one', async () => {
    const look = 'grep -E "^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Groups)" /proc/self/status; ls /proc/1/fd /proc/1/root';
    const command = `(${look}) 2>&1; ${passing}`;
    const prepare = { command: `(${look}) 2>&1 || true` };
    const small = await all.sample({ prepare, command, reports: tap, fail_to_pass: role }, { none: '' });
    const { stdout } = await all.grade(small, 'true');
    const said = stdout.bytes.toString().split('\n');
    expect(said.filter((line) => line.startsWith('Cap')).map((line) => line.slice(-16))).toEqual(
      Array(8).fill('0'.repeat(16)),
    );
    expect(said.filter((line) => line.startsWith('NoNewPrivs'))).toEqual(['NoNewPrivs:\t1', 'NoNewPrivs:\t1']);
    expect(said.filter((line) => line.startsWith('Groups')).map((line) => line.trim())).toEqual([
      'Groups:\t1000',
      'Groups:\t64990',
    ]);
    expect(said.filter((line) => line.includes('Permission denied')).length).toBe(4);
  });

  test('has a place for temporary files that is the grader’s alone', async () => {
    const command = `[ "$(stat -c %u:%a "$TMPDIR")" = 64990:700 ] && ${passing}`;
    const small = await all.sample({ command, reports: tap, fail_to_pass: role }, { none: '' });
    expect((await all.grade(small, 'true')).judgement.verdict).toBe('PASSED');
  });

  test('has a loopback with its usual names, and no other network', async () => {
    const command = `python3 -I "$ASSAY_TESTS/look.py" && ls /sys/class/net && ${passing}`;
    const look = `import socket
for name in 'localhost', socket.gethostname():
    server = socket.create_server((name, 0))
    socket.create_connection(server.getsockname()).close()
print([name for _, name in socket.if_nameindex()])
for place in ('192.0.2.1', 9), ('2001:db8::1', 9):
    try:
        socket.create_connection(place)
    except OSError as error:
        print(error.strerror)
`;
    const small = await all.sample({ command, reports: tap, fail_to_pass: role }, { 'look.py': look });
    const { judgement, stdout } = await all.grade(small, 'true');
    expect(stdout.bytes.toString().split('\n')).toEqual([
      "['lo']",
      'Network is unreachable',
      expect.stringMatching(/^(Network is unreachable|Cannot assign requested address)$/),
      'lo',
      '',
    ]);
    expect(judgement.verdict).toBe('PASSED');
  });

  test('lets tests that load the submission read what its owner may', async () => {
    const loading = { ...role, assurance: 'IN_PROCESS' };
    const command = `. /workspace/own/file && [ "$answer" = 42 ] && ${passing}`;
    const small = await all.sample({ command, reports: tap, fail_to_pass: loading }, { none: '' });
    const change = 'umask 077; mkdir /workspace/own; echo answer=42 > /workspace/own/file';
    expect((await all.grade(small, change)).judgement).toMatchObject({ verdict: 'PASSED', assurance: 'IN_PROCESS' });
  });

  test('ends as INVALID_SUBMISSION where a forbidden path was touched, and runs nothing', async () => {
    const rules = { forbid_paths: ['ci/**'] };
    const small = await all.sample({ ...rules, command: passing, reports: tap, fail_to_pass: role }, { none: '' });
    const { judgement, runs } = await all.grade(small, 'mkdir /workspace/ci; touch /workspace/ci/x');
    expect(judgement).toMatchObject({ verdict: 'INVALID_SUBMISSION', trainable: true });
    expect(judgement.reasons[0]).toContain('ci');
    expect(runs).toMatchObject([{ prepare: undefined, command: undefined }]);
  });

  test('is a failure of ours where the submission does not fit the image, which the agent has no hand in', async () => {
    const small = await all.sample({ command: passing, reports: tap, fail_to_pass: role }, { none: '' });
    const { path } = await all.submission(small, 'true');
    const bytes = Buffer.concat([
      readFileSync(path).subarray(0, 1_024),
      encodeHeader(plainHeader('deletions', 12)),
      Buffer.concat([Buffer.from('built/cache\0'), padding(12)]),
      Buffer.alloc(1_024),
    ]);
    writeFileSync(`${path}.other`, bytes);
    const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
    const order = all.order(small, { digest, path: `${path}.other` });
    await expect(all.grader.grade(order)).rejects.toThrow('does not fit the image');
  });

  test('leaves protected paths as they were, and says so', async () => {
    const rules = { restore_paths: ['kept.txt'] };
    const command = `[ ! -e /workspace/kept.txt ] && [ -e /workspace/other.txt ] && ${passing}`;
    const small = await all.sample({ ...rules, command, reports: tap, fail_to_pass: role }, { none: '' });
    const { judgement, notes } = await all.grade(small, 'touch /workspace/kept.txt /workspace/other.txt');
    expect(judgement.verdict).toBe('PASSED');
    expect(notes).toContain('protected and left as the image has them: kept.txt');
  });

  test.each([
    ['adds a file to a protected folder', 'touch tests/new.py', 'tests/new.py'],
    ['rewrites a protected file', 'printf x > tests/test_a.py', 'tests/test_a.py'],
    ['removes a protected file', 'rm tests/data/one', 'tests/data/one'],
    ['exchanges a folder above for a link', 'mv dir old; ln -s old dir', 'dir'],
    ['makes a folder above anew', 'rm -r dir; mkdir dir', 'dir/sub'],
    ['makes a forbidden file', 'mkdir -p new/ci; touch new/ci/x', 'new/ci'],
  ])('ends as TAMPERED where the build %s', async (_, script, path) => {
    const rules = { restore_paths: ['tests/**', 'dir/sub/c'], forbid_paths: ['ci'] };
    const prepare = { command: 'sh ./build.sh' };
    const small = await all.sample(
      { ...rules, prepare, command: passing, reports: tap, fail_to_pass: role },
      { none: '' },
    );
    const image = await filled;
    const { judgement, runs } = await all.grade({ ...small, image }, `echo '${script}' > /workspace/build.sh`);
    const reasons = [`prepare changed ${path}, which has to stay as the image has it`];
    expect(judgement).toMatchObject({ verdict: 'TAMPERED', reasons, trainable: true, reward: 0 });
    expect(runs[0]).toMatchObject({ prepare: { end: { code: 0 } }, command: undefined });
  });

  test('is not held up by a build that leaves protected paths alone, whatever else it and the submission change', async () => {
    const rules = { restore_paths: ['tests/**', 'dir/sub/c'], forbid_paths: ['ci', 'dir/a'] };
    const prepare = { command: 'sh ./build.sh' };
    const command = `[ "$(cat /workspace/tests/test_a.py)" = 'assert True' ] && [ -e /workspace/out/1 ] && ${passing}`;
    const small = await all.sample({ ...rules, prepare, command, reports: tap, fail_to_pass: role }, { none: '' });
    const change = `cd /workspace; rm -r tests dir/b; chmod 700 dir; touch dir/more
echo 'mkdir out; touch out/1 tests/test_a.py; chmod 755 dir; echo x >> dir/more; rm -r removed' > build.sh`;
    expect((await all.grade({ ...small, image: await filled }, change)).judgement.verdict).toBe('PASSED');
  });

  test('ends as INVALID_SUBMISSION where the submission does not fit on the disk', async () => {
    const small = await all.sample({ command: passing, reports: tap, fail_to_pass: role }, { none: '' });
    const { judgement } = await all.grade(small, 'truncate -s 200M /workspace/hole');
    expect(judgement).toMatchObject({ verdict: 'INVALID_SUBMISSION' });
    expect(judgement.reasons[0]).toContain('does not fit');
  });

  test.each([
    ['a program that is not there', 'no-such-runner --all'],
    ['a list that begins with one', ['/opt/no/such/runner']],
  ])('ends as SAMPLE_BROKEN where the command is %s', async (_, command) => {
    const small = await all.sample({ command, reports: tap, fail_to_pass: role }, { none: '' });
    const { judgement } = await all.grade(small, 'touch /workspace/x');
    expect(judgement).toMatchObject({ verdict: 'SAMPLE_BROKEN', trainable: false });
    expect(judgement.reasons[0]).toMatch(/; the image has no program .*no.such.runner$/);
  });

  test.each([
    ['is not there, and is the task', '/workspace/made/runner', {}],
    ['is not there, as a list', ['/workspace/made/runner'], {}],
    ['is looked for by the tests', 'sh run.sh', { 'run.sh': '/workspace/made/runner' }],
    ['is not there for the build', passing, {}, 'made/build'],
  ])('ends as FAILED where a program of the workspace %s', async (_, command, tests, build = 'true') => {
    const prepare = { command: build };
    const small = await all.sample({ prepare, command, reports: tap, fail_to_pass: role }, { none: '', ...tests });
    const { judgement } = await all.grade(small, 'touch /workspace/x');
    expect(judgement).toMatchObject({ verdict: 'FAILED', trainable: true });
  });

  test('cannot be made at SHARED without the session', async () => {
    const weak = { ...role, assurance: 'SHARED' };
    const small = await all.sample({ command: passing, reports: tap, fail_to_pass: weak }, { none: '' });
    await expect(all.grade(small, 'true')).rejects.toBeInstanceOf(SessionGone);
  });

  test('keeps the beginning and the end of a long output', async () => {
    const command = `echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last; ${passing}`;
    const small = await all.sample({ command, reports: tap, fail_to_pass: role }, { none: '' });
    const { judgement, stdout } = await all.grade(small, 'true');
    expect(judgement.verdict).toBe('PASSED');
    expect(stdout).toMatchObject({ truncated: true, totalBytes: 3_000_011 });
    expect(stdout.bytes.length).toBeLessThan(70_000);
    expect(stdout.bytes.toString()).toMatch(/^first\nx+\n\[2934475 bytes left out\]\nx+last\n$/);
  });
});
