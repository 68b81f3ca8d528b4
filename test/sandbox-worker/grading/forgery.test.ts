import { afterAll, describe, expect, test } from 'vitest';
import { nothingLeft } from '../docker/scratch-host.ts';
import { createGradingHost } from './grading-host.ts';

const all = await createGradingHost();

afterAll(async () => {
  expect(await all.close()).toEqual(nothingLeft);
});

const role = { assurance: 'ISOLATED', tests: ['it works'] };
const tap = [{ format: 'tap', path: 'report.tap' }];
const verification = { reports: tap, fail_to_pass: role };
const run = '"$ASSAY_ISOLATED" run --timeout 50 -- sh ./solve.sh';
const reported = 'printf "1..1\\n%sok 1 - it works\\n" "$not" > "$ASSAY_REPORTS/report.tap"';
/** Passes if the submission answers 42. */
const asking = `not="not "; [ "$(${run})" = 42 ] && not=; ${reported}; [ -z "$not" ]`;
const submit = (text: string) => `cat > /workspace/solve.sh <<'END'\n${text}\nEND`;

// Side by side, since a grading waits for its containers most of its time.
describe.concurrent('a grading is not passed by', () => {
  test('a report, a reward and an exit status of the submission', async () => {
    const small = await all.sample({ ...verification, command: asking }, { none: '' });
    const forging = `echo 1..1 > /grader/reports/report.tap; mkdir -p /workspace/reports
      printf '1..1\\nok 1 - it works\\n' | tee report.tap reports/report.tap /tmp/report.tap; exit 0`;
    const { judgement } = await all.grade(small, submit(forging));
    expect(judgement).toMatchObject({ verdict: 'FAILED', tests: [{ name: 'it works', status: 'failed' }] });
  });

  test('looking at the tests, the runner or the guest', async () => {
    const small = await all.sample({ ...verification, command: asking }, { answer: '42\n' });
    const looking = `cat /grader/tests/answer 2>/dev/null; ls /grader 2>/dev/null
      for p in /proc/[0-9]*; do cat $p/environ $p/mem 2>/dev/null | tr -d '\\0' | grep -ao 'ASSAY_GUEST_SECRET'; done
      kill -9 1 -1; true`;
    const { judgement } = await all.grade(small, submit(looking));
    expect(judgement.verdict).toBe('FAILED');
  });

  test('a build that leaves a writer behind, which writes when the tests have ended', async () => {
    const prepare = { command: 'setsid sh -c "while :; do echo 42 > late; done" >/dev/null 2>&1 & sleep 0.2' };
    const small = await all.sample({ ...verification, prepare, command: asking }, { none: '' });
    const { judgement } = await all.grade(small, submit('echo no'));
    expect(judgement.verdict).toBe('FAILED');
  });

  test('a build that kills the spawner and takes its place, unless it knows the answer', async () => {
    const prepare = { command: 'pkill -9 isolated; setsid sh server.sh >/dev/null 2>&1 & sleep 0.3' };
    const small = await all.sample({ ...verification, prepare, command: asking }, { none: '' });
    const { judgement, notes } = await all.grade(
      small,
      'echo "/run/assay/isolated serve @assay-agent" > /workspace/server.sh',
    );
    expect(judgement.verdict).toBe('FAILED');
    expect(notes).toContain('tests: the spawner was ended before the tests were');
  });

  test('the tests themselves where they write after their end: the report counts as it was when all was dead', async () => {
    const late = `not="not "; ${reported}; (sleep 20; not=; ${reported}) & exit 1`;
    const small = await all.sample({ ...verification, command: late }, { none: '' });
    const { judgement } = await all.grade(small, 'true');
    expect(judgement.verdict).toBe('FAILED');
  });
});

describe.concurrent('a report is not believed that is', () => {
  const forms: [string, string][] = [
    ['a link to a file', `${reported.replace('report.tap', 'real')}; ln -s real "$ASSAY_REPORTS/report.tap"`],
    ['a link to a file of the host', 'ln -s /etc/hostname "$ASSAY_REPORTS/report.tap"'],
    [
      'in a folder that is a link',
      `mkdir /grader/other; rmdir "$ASSAY_REPORTS"; ln -s other /grader/reports; ${reported}`,
    ],
    ['a file with two names', `${reported}; ln "$ASSAY_REPORTS/report.tap" "$ASSAY_REPORTS/other"`],
    ['a FIFO', 'mkfifo "$ASSAY_REPORTS/report.tap"'],
    ['a folder', 'mkdir "$ASSAY_REPORTS/report.tap"'],
    ['too large', `${reported}; truncate -s 17M "$ASSAY_REPORTS/report.tap"`],
    ['no TAP at all', 'echo "it works" > "$ASSAY_REPORTS/report.tap"'],
    ['absent', 'true'],
  ];
  test.each(forms)('%s', async (_, making) => {
    const small = await all.sample({ ...verification, command: `not=; ${making}; exit 0` }, { none: '' });
    const { judgement } = await all.grade(small, 'true');
    expect(judgement).toMatchObject({ verdict: 'FAILED', tests: [{ status: 'missing' }] });
    expect(judgement.reasons.join()).toContain('report.tap: ');
  });
});

test.concurrent('a sentinel that passes is tampering, in whatever run', async () => {
  const sentinel_fail = { assurance: 'ISOLATED', command: asking.replaceAll('it works', 'never'), tests: ['never'] };
  const small = await all.sample({ ...verification, command: asking, sentinel_fail }, { none: '' });
  const { judgement } = await all.grade(small, submit('echo 42'));
  expect(judgement).toMatchObject({ verdict: 'TAMPERED', reward: 0 });
});

test.concurrent('a runner that loads the submission runs in a container of its own, and says IN_PROCESS', async () => {
  const loading = `. /workspace/solve.sh; ${reported.replaceAll('it works', 'still works')}`;
  const pass_to_pass = { assurance: 'IN_PROCESS', command: loading, tests: ['still works'] };
  const small = await all.sample({ ...verification, command: asking, pass_to_pass }, { none: '' });
  const forging =
    'printf "1..2\\nok 1 - it works\\nok 2 - still works\\n" > /grader/reports/report.tap; echo 41; exit 0';
  const { judgement } = await all.grade(small, submit(forging));
  expect(judgement).toMatchObject({ verdict: 'FAILED', assurance: 'IN_PROCESS' });
  expect(judgement.tests.map(({ name, status }) => [name, status])).toEqual([
    ['it works', 'failed'],
    ['still works', 'passed'],
  ]);
});
