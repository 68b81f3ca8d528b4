import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Graded, GradingOrder } from '../../../services/sandbox-worker/grading/grader.ts';
import { nothingLeft } from '../docker/scratch-host.ts';
import { createGradingHost, type Small } from './grading-host.ts';

const size = 2;
const all = await createGradingHost(size);
const { containers, engine } = all;
const reports = [{ format: 'tap', path: 'report.tap' }];
const fail_to_pass = { assurance: 'ISOLATED', tests: ['it works'] };
const sentinel_fail = { assurance: 'ISOLATED', command: 'sh run.sh never', tests: ['never'] };
const run = `not="not "; [ "$("$ASSAY_ISOLATED" run -- cat answer)" = 42 ] && [ "$1" = works ] && not=
printf "1..1\\n%sok 1 - %s\\n" "$not" "$([ "$1" = works ] && echo it works || echo never)" > "$ASSAY_REPORTS/report.tap"
[ -z "$not" ]`;
let small: Small;
let submission: GradingOrder['submission'];

beforeAll(async () => {
  const verification = { command: 'sh run.sh works', reports, fail_to_pass, sentinel_fail };
  small = await all.sample(verification, { 'run.sh': run });
  submission = await all.submission(small, 'echo 42 > /workspace/answer');
});

afterAll(async () => {
  expect(await all.close()).toEqual(nothingLeft);
});

const startMs = ({ steps }: Graded) => steps.filter(({ name }) => name === 'start');

describe('containers that were started ahead', () => {
  test('are used by the next grading, once each, and give the same verdict', async () => {
    const cold = await all.grader.grade(all.order(small, submission));
    expect([cold.judgement.verdict, startMs(cold).length]).toEqual(['PASSED', 1]);
    await containers.settled();
    expect(containers.waiting).toBe(size);
    const before = new Set((await engine.list(all.host.installation)).map(({ id }) => id));
    const warm = await all.grader.grade(all.order(small, submission));
    expect([warm.judgement.verdict, startMs(warm)]).toEqual(['PASSED', []]);
    await Promise.all([containers.settled(), all.grader.settled()]);
    const after = (await engine.list(all.host.installation)).map(({ id }) => id);
    expect([after.length, after.filter((id) => before.has(id))]).toEqual([size, []]);
  });

  test('hold nothing of the grading before, and fail what has to fail', async () => {
    await containers.settled();
    const { judgement } = await all.grader.grade(all.order(small, await all.submission(small, 'true')));
    expect(judgement).toMatchObject({ verdict: 'FAILED', tests: [{ status: 'failed' }, { status: 'failed' }] });
  });

  test('that died meanwhile are not used', async () => {
    await Promise.all([containers.settled(), all.grader.settled()]);
    for (const { id } of await engine.list(all.host.installation)) {
      await all.host.docker.getContainer(id).kill();
      await all.host.docker.getContainer(id).wait();
    }
    expect((await all.grader.grade(all.order(small, submission))).judgement.verdict).toBe('PASSED');
  });

  test('give way to those of another kind, and a cancel gives them up', async () => {
    await containers.settled();
    const image = await engine.image(small.image);
    const limits = { cpus: 1, memoryBytes: 2 ** 27, diskBytes: 2 ** 26, pids: 32 };
    const other = await containers.create({ imageId: image.id, limits, verificationId: 'ver-y', background: false });
    await containers.settled();
    expect([other.started, containers.waiting]).toEqual([false, size]);
    const another = await containers.create({ imageId: image.id, limits, verificationId: 'ver-z', background: false });
    expect(another.started).toBe(true);
    await Promise.all([other.remove(), another.remove()]);
    const cancel = new AbortController();
    const order = all.order(small, submission, { signal: cancel.signal, phase: () => cancel.abort() });
    await expect(all.grader.grade(order)).rejects.toThrow('aborted');
    await Promise.all([containers.settled(), all.grader.settled()]);
    expect((await engine.list(all.host.installation)).length).toBe(containers.waiting);
  });
});
