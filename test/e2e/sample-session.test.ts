import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Docker from 'dockerode';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { BuildEvent, Client } from '../../clients/typescript/index.ts';
import { readSample } from '../../services/shared/sample/read-sample.ts';
import { runCaptured } from '../cli/captured-terminal.ts';
import { runDirectory, runId } from '../run.ts';
import { eventually } from './eventually.ts';
import { startTestStack, type TestStack } from './stack.ts';

const shipped = new URL('../../datasets/examples/hello-fix', import.meta.url).pathname;
/** Words that stand nowhere but in the hidden tests and in the solution. */
const hidden = [
  'a sum that no program prints',
  'the last number is part of the sum',
  'return sum(range(low, high + 1))',
];
const hello = { dataset: 'examples', id: 'hello-fix' };
let datasets: string;
let stack: TestStack;
let agent: Client;
const built: string[] = [];

/** hello-fix with something of its own, so that its image was never built before. */
function writeSample(id: string, change: (yaml: string) => string = (yaml) => yaml): void {
  const folder = join(datasets, 'examples', id);
  cpSync(shipped, folder, { recursive: true });
  writeFileSync(join(folder, 'code/RUN'), `${runId()} ${id}\n`);
  const yaml = join(folder, 'sample.yaml');
  writeFileSync(yaml, change(readFileSync(yaml, 'utf8').replace('id: hello-fix', `id: ${id}`)));
}

beforeAll(async () => {
  datasets = mkdtempSync(join(runDirectory(), 'datasets-'));
  mkdirSync(join(datasets, 'examples'));
  const env = 'environment:\n  env: {FROM_SAMPLE: "1", BOTH: sample}\n';
  writeSample('hello-fix', (yaml) => yaml.replace('environment:\n', env));
  writeSample('slow', (yaml) => yaml.replace('environment:\n', 'environment:\n  setup: echo begun; sleep 600\n'));
  writeSample('broken', (yaml) => yaml.replace('environment:\n', 'environment:\n  setup: echo the reason; exit 7\n'));
  writeSample('greedy', (yaml) => yaml.replace('memory: 256m', 'memory: 64g'));
  stack = await startTestStack({
    env: { sessions: { ASSAY_DATASETS: datasets, ASSAY_LIMIT_MEMORY_BYTES: String(8 * 2 ** 30) } },
  });
  agent = await stack.clientWith({ scopes: ['AGENT'] });
});
afterAll(async () => {
  await stack.stop();
  const docker = new Docker({ socketPath: inject('setup').dockerSocket, host: undefined });
  for (const image of built) await docker.getImage(image).remove({ force: true });
  rmSync(datasets, { recursive: true, force: true });
});

async function build(client: Client, id: string): Promise<BuildEvent[]> {
  const events = await Array.fromAsync(client.samples.build({ dataset: 'examples', id }));
  for (const event of events) if (event.type === 'built' && !built.includes(event.image)) built.push(event.image);
  return events;
}

/** What a build printed may tell where the fix is. */
const inBrief = expect.not.stringContaining('the reason');

describe('building a sample', () => {
  test('shows a grader every line, an agent the steps, and is done once', async () => {
    const [lines, steps] = await Promise.all([build(stack.client, 'hello-fix'), build(agent, 'hello-fix')]);
    const said = lines.flatMap((event) => (event.type === 'progress' ? [event.line] : []));
    expect(said.filter((line) => line.startsWith('Step '))).not.toEqual([]);
    expect(lines.at(-1)).toMatchObject({ type: 'built', image: expect.stringMatching(/^assay\/sample:[0-9a-f]{64}$/) });
    expect(steps.map((event) => (event.type === 'progress' ? [event.step, event.line] : event.type))).toEqual([
      ['CODE', ''],
      ['MANIFEST', ''],
      'built',
    ]);
    expect(await build(agent, 'hello-fix')).toEqual([lines.at(-1)]);
  });

  test('that does not exist, or cannot be built, says so', async () => {
    await expect(build(agent, 'none')).rejects.toMatchObject({ reason: 'SAMPLE_NOT_FOUND' });
    await expect(build(stack.client, 'broken')).rejects.toMatchObject({
      reason: 'IMAGE_BUILD_FAILED',
      message: expect.stringContaining('the reason'),
    });
    await expect(build(agent, 'broken')).rejects.toMatchObject({ reason: 'IMAGE_BUILD_FAILED', message: inBrief });
  });
});

describe.concurrent('a session made from a sample', () => {
  test('has its code as one commit, its task, its limits and its variables', async () => {
    const { digests, sample } = await readSample(join(datasets, 'examples/hello-fix'));
    await using session = await agent.sessions.create({ sample: hello, env: { BOTH: 'caller' }, limits: { pids: 32 } });
    expect(session.info).toMatchObject({
      state: 'READY',
      message: '',
      limits: { memoryBytes: 256 * 2 ** 20, diskBytes: 256 * 2 ** 20, pids: 32 },
      network: { mode: 'NONE' },
      sample: {
        ...{ ...hello, version: '1.0.0', instruction: sample.instruction, contentDigest: digests.content },
        ...{ imageDigest: digests.image, verificationDigest: digests.verification },
      },
    });
    const { stdout } = await session.run(
      'pwd; id -un; git log --format=%s | cat; git status --short; python3 ranges.py sum 1 3; echo $FROM_SAMPLE $BOTH',
    );
    expect(stdout.toString().trim().split('\n')).toEqual(['/workspace', 'agent', 'The code as it is', '3', '1 caller']);
    const memory = await session.run(['python3', '-c', 'x = bytearray(400 << 20)']);
    expect(memory.result.reason).toBe('OUT_OF_MEMORY');
    const listed = (await Array.fromAsync(agent.sessions.list())).find(({ id }) => id === session.id);
    expect(listed?.sample).toMatchObject({ ...hello, instruction: '' });
    await expect(session.fork({ network: { mode: 'FULL' } })).rejects.toMatchObject({ reason: 'INVALID_FIELD' });
    await using fork = await session.fork();
    expect(fork.info.sample).toEqual(session.info.sample);
  });

  test('holds nothing of the hidden tests or the solution', async () => {
    await using session = await agent.sessions.create({ sample: hello });
    const patterns = hidden.flatMap((words) => ['-e', words]);
    const found = await session.run(['grep', '-rslF', ...patterns, '--exclude-dir=proc', '--exclude-dir=sys', '/'], {
      timeoutMs: 120_000,
    });
    expect(found.stdout.toString()).toBe('');
    const history = await session.run('git cat-file --batch-all-objects --batch | cat');
    for (const words of hidden) expect(history.stdout.toString()).not.toContain(words);
    expect(history.stdout.toString()).toContain('The code as it is');
    const named = await session.run(
      "find / -xdev '(' -name sentinel.py -o -name fix.patch -o -name assemble.py ')' 2>&-",
    );
    expect(named.stdout.toString()).toBe('');
  });

  test('is made once for one request, and refuses what a sample decides', async () => {
    const request = { sample: hello, requestId: 'the-same' };
    const [first, second] = await Promise.all([agent.sessions.create(request), agent.sessions.create(request)]);
    expect(second.id).toBe(first.id);
    await first.close();
    const refused = [{ image: 'debian:12' }, { network: { mode: 'FULL' as const } }];
    for (const more of refused) {
      const making = agent.sessions.create({ sample: hello, ...more });
      await expect(making).rejects.toMatchObject({ reason: 'INVALID_FIELD' });
    }
    const none = agent.sessions.create({ sample: { ...hello, version: '9.9.9' } });
    await expect(none).rejects.toMatchObject({ reason: 'SAMPLE_NOT_FOUND', message: expect.stringContaining('1.0.0') });
    const greedy = agent.sessions.create({ sample: { dataset: 'examples', id: 'greedy' } });
    await expect(greedy).rejects.toMatchObject({ reason: 'LIMIT_EXCEEDED' });
  });

  test('fails where its image cannot be built, and why is for graders', async () => {
    const making = agent.sessions.create({ sample: { dataset: 'examples', id: 'broken' } });
    await expect(making).rejects.toMatchObject({ reason: 'IMAGE_BUILD_FAILED', message: inBrief });
    const [ended] = await Array.fromAsync(agent.sessions.list({ states: ['FAILED'] }));
    expect(ended).toMatchObject({ errorReason: 'IMAGE_BUILD_FAILED', sample: { id: 'broken' } });
  });

  test('says that its image is being built, and can be closed meanwhile', async () => {
    const making = agent.sessions.create({ sample: { dataset: 'examples', id: 'slow' } });
    const outcome = expect(making).rejects.toMatchObject({ reason: 'SESSION_ENDED' });
    const waiting = async () =>
      (await Array.fromAsync(agent.sessions.list({ states: ['CREATING'] }))).find(
        ({ sample }) => sample?.id === 'slow',
      );
    await eventually(async () => expect((await waiting())?.message).toContain('building the image of examples/slow'));
    const session = await agent.sessions.get((await waiting())?.id ?? '');
    expect((await session.close()).state).toBe('CLOSED');
    await outcome;
    const builds = join(stack.stack.dataDir, 'worker/builds/work');
    await eventually(() => expect(readdirSync(builds)).toEqual([]));
  });
});

describe('assay run <dataset>/<sample>', () => {
  const assay = (...args: string[]) => runCaptured(args, stack.endpoint, '', stack.key);

  test('with a command runs it with the code in place, and closes the session', async () => {
    const { stdout, code } = await assay('run', 'examples/hello-fix', '--', 'python3', 'ranges.py', 'sum', '1', '3');
    expect([stdout.toString(), code]).toEqual(['3\n', 0]);
    expect((await Array.fromAsync(stack.client.sessions.list({ states: ['READY'] }))).length).toBe(0);
  });

  test('without a command prints the session and its task, and keeps it', async () => {
    const { stdout } = await assay('run', 'examples/hello-fix');
    const id = /^session (ses_\w+)\n/.exec(stdout.toString())?.[1] ?? '';
    expect(stdout.toString()).toContain('`ranges.py` sums and counts whole numbers');
    const shown = await assay('sessions', 'get', id);
    expect(shown.stdout.toString()).toMatch(/sample +examples\/hello-fix@1\.0\.0/);
    await (await stack.client.sessions.get(id)).close();
  });
});
