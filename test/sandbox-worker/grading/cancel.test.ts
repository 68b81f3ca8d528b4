import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type GradingOrder, gradingPhases } from '../../../services/sandbox-worker/grading/grader.ts';
import { nothingLeft } from '../docker/scratch-host.ts';
import { createGradingHost, type Small } from './grading-host.ts';

const all = await createGradingHost();
const reports = [{ format: 'tap', path: 'report.tap' }];
const fail_to_pass = { assurance: 'ISOLATED', tests: ['it works'] };
const passing = 'printf "1..1\\nok 1 - it works\\n" > $ASSAY_REPORTS/report.tap';
let small: Small;
let submission: GradingOrder['submission'];

beforeAll(async () => {
  const prepare = { command: 'echo prepared' };
  small = await all.sample({ prepare, command: passing, reports, fail_to_pass }, { none: '' });
  submission = await all.submission(small, 'echo 1 > /workspace/x');
});

afterAll(async () => {
  expect(await all.close()).toEqual(nothingLeft);
});

const ours = () => all.engine.list(all.host.installation);
const slots = () => readdirSync(join(all.host.directory, 'g'));
/** Sockets, pipes and files below the test's directory that this process holds. */
const descriptors = () => readdirSync('/proc/self/fd').length;

describe('a cancel', () => {
  test.each(gradingPhases)('in the phase %s ends it with its reason, and leaves nothing', async (wanted) => {
    await all.grader.grade(all.order(small, submission));
    await all.grader.settled();
    const before = descriptors();
    const cancel = new AbortController();
    const reason = new Error('cancelled by a test');
    const phase = (reached: string) => reached === wanted && cancel.abort(reason);
    await expect(all.grader.grade(all.order(small, submission, { signal: cancel.signal, phase }))).rejects.toBe(reason);
    expect([await ours(), slots()]).toEqual([[], []]);
    await expect.poll(descriptors).toBeLessThanOrEqual(before);
  });

  test('while the tests run ends them at once', async () => {
    // A number of its own, since another run of this may be under way on the same machine.
    const sleep = `sleep ${randomInt(100_000, 1_000_000_000)}`;
    const command = `"$ASSAY_ISOLATED" run --timeout 500 -- ${sleep}`;
    const endless = await all.sample({ command, timeout: 600, reports, fail_to_pass }, { none: '' });
    const cancel = new AbortController();
    const graded = all.grader.grade(all.order(endless, submission, { signal: cancel.signal }));
    graded.catch(() => {});
    await expect.poll(() => processes().some((line) => line.startsWith(sleep))).toBe(true);
    cancel.abort();
    await expect(graded).rejects.toThrow('aborted');
    expect([await ours(), slots(), processes().filter((line) => line.includes(sleep))]).toEqual([[], [], []]);
  });

  test('that came before ends it before anything is made', async () => {
    await expect(all.grader.grade(all.order(small, submission, { signal: AbortSignal.abort() }))).rejects.toThrow();
  });
});

test('a sweep removes the containers of a worker that died, and none that is in use', async () => {
  const image = await all.engine.image(small.image);
  const limits = { cpus: 1, memoryBytes: 2 ** 28, diskBytes: 2 ** 26, pids: 64 };
  const order = { imageId: image.id, limits, verificationId: 'ver-x', background: false };
  const { containers: ofTheDead } = all.another();
  const [left, used] = [await ofTheDead.create(order), await all.containers.create(order)];
  await left.start();
  await all.containers.sweep();
  expect((await ours()).map(({ id }) => id)).toEqual([used.id]);
  await Promise.all([left.remove(), used.remove()]);
  expect([await ours(), slots()]).toEqual([[], []]);
});

function processes(): string[] {
  return execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' }).split('\n');
}
