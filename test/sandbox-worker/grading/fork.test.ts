import { afterAll, describe, expect, test } from 'vitest';
import type { GradingOrder } from '../../../services/sandbox-worker/grading/grader.ts';
import { nothingLeft } from '../docker/scratch-host.ts';
import { createGradingHost } from './grading-host.ts';

const all = await createGradingHost(1);

afterAll(async () => {
  expect(await all.close()).toEqual(nothingLeft);
});

const tap = [{ format: 'tap', path: 'report.tap' }];
const says = (name: string, check: string): string =>
  `if ${check}; then printf '1..1\\nok 1 - ${name}\\n' > $ASSAY_REPORTS/report.tap
else printf '1..1\\nnot ok 1 - ${name}\\n' > $ASSAY_REPORTS/report.tap; exit 1; fi`;
const install = `mkdir -p ~/.local/bin; printf '#!/bin/sh\\necho 42\\n' > ~/.local/bin/tool; chmod 755 ~/.local/bin/tool
touch /workspace/done`;
const installed = '[ "$(/home/agent/.local/bin/tool)" = 42 ]';

describe('a grading at FORK', () => {
  test('sees what was installed outside of the workspace, which one at IN_PROCESS does not', async () => {
    const at = async (assurance: string) => {
      const fail_to_pass = { assurance, tests: ['it works'] };
      const small = await all.sample(
        { command: says('it works', installed), reports: tap, fail_to_pass },
        { none: '' },
      );
      return (await all.grade(small, install)).judgement;
    };
    expect(await at('FORK')).toMatchObject({ verdict: 'PASSED', assurance: 'FORK', trainable: true });
    expect(await at('IN_PROCESS')).toMatchObject({ verdict: 'FAILED', assurance: 'IN_PROCESS' });
  });

  test('leaves a stronger run of the same sample with nothing but the submission', async () => {
    const verification = {
      command: says('isolated', '[ -e /workspace/done ] && [ ! -e /home/agent/.local/bin/tool ]'),
      reports: tap,
      fail_to_pass: { assurance: 'ISOLATED', tests: ['isolated'] },
      pass_to_pass: { assurance: 'FORK', tests: ['forked'], command: says('forked', installed) },
    };
    const small = await all.sample(verification, { none: '' });
    const { judgement, runs } = await all.grade(small, install);
    expect(judgement).toMatchObject({ verdict: 'PASSED', assurance: 'FORK' });
    expect(runs.map(({ assurance }) => assurance)).toEqual(['ISOLATED', 'FORK']);
  });

  test('has no process of the session, no network, and tests that the agent’s user cannot read', async () => {
    const hidden = '! "$ASSAY_ISOLATED" run -- cat /grader/tests/secret';
    const alone = '[ "$(ls /sys/class/net)" = lo ] && ! grep -q 777777[7] /proc/[0-9]*/cmdline';
    const fail_to_pass = { assurance: 'FORK', tests: ['alone'] };
    const small = await all.sample(
      { command: says('alone', `${hidden} && ${alone}`), reports: tap, fail_to_pass },
      { secret: 'hidden' },
    );
    expect((await all.grade(small, 'sleep 7777777 > /dev/null 2>&1 & true')).judgement).toMatchObject({
      verdict: 'PASSED',
    });
  });

  test('fails where a program that the agent had to install is missing, and does not blame the sample', async () => {
    const fail_to_pass = { assurance: 'FORK', tests: ['exit status'] };
    const reports = [{ format: 'exit-status' }];
    const small = await all.sample({ command: ['/home/agent/.local/bin/tool'], reports, fail_to_pass }, { none: '' });
    expect((await all.grade(small, install)).judgement).toMatchObject({ verdict: 'PASSED' });
    expect((await all.grade(small, 'true')).judgement).toMatchObject({ verdict: 'FAILED', trainable: true });
  });

  test('is a failure of ours where the file system was not sealed', async () => {
    const fail_to_pass = { assurance: 'FORK', tests: ['it works'] };
    const small = await all.sample({ command: 'true', reports: tap, fail_to_pass }, { none: '' });
    const { digest, path }: GradingOrder['submission'] = await all.submission(small, 'true');
    await expect(all.grader.grade(all.order(small, { digest, path }))).rejects.toMatchObject({ reason: 'INTERNAL' });
  });
});
