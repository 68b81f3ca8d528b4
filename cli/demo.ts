import { styleText } from 'node:util';
import {
  AssayError,
  type Client,
  createClient,
  type ExecutionEvent,
  type Session,
  type TestResultInfo,
} from '../clients/typescript/index.ts';
import { findAccess } from './access.ts';
import { toFailure } from './failure.ts';

const hello = { dataset: 'examples', id: 'hello-fix' };
const attempt = 'git log --oneline | cat; echo "1 + 2 + 3 is"; sleep 0.2; python3 ranges.py sum 1 3';
const fix = "sed -i 's/sum(range(low, high))/sum(range(low, high + 1))/' ranges.py && git diff --stat | cat";

const dim = (text: string) => styleText('dim', text);
const say = (text = '') => process.stdout.write(`  ${text}\n`);

/** The whole story: code with a flaw, a command, a verdict that says which test, a fix, and the other verdict. */
async function demonstrate(client: Client): Promise<void> {
  await build(client);
  const startedAt = performance.now();
  const options = { sample: hello, labels: { demo: 'true' }, ttlMs: 300_000 };
  await using session = await client.sessions.create(options);
  say(`session ${session.id} from examples/hello-fix is ready after ${(performance.now() - startedAt).toFixed(0)} ms`);
  for (const line of (session.info.sample?.instruction ?? '').trim().split('\n')) say(dim(`| ${line}`));
  await run(session, attempt);
  await verify(session);
  say('the fix:');
  await run(session, fix);
  await verify(session);
  const { state } = await session.close();
  say(`session ${state}`);
}

/** Only where it was never built does this take more than a moment. */
async function build(client: Client): Promise<void> {
  let told = false;
  for await (const { type } of client.samples.build(hello)) {
    if (told || type !== 'progress') continue;
    told = true;
    say('building the image of examples/hello-fix, once …');
  }
}

async function run(session: Session, command: string): Promise<void> {
  say(`$ ${command}`);
  const startedAt = performance.now();
  const lines = { stdout: createLines('stdout'), stderr: createLines('stderr') };
  for await (const event of session.execute(command)) show(event, performance.now() - startedAt, lines);
}

type Lines = Record<'stdout' | 'stderr', ReturnType<typeof createLines>>;

function show(event: ExecutionEvent, atMs: number, lines: Lines): void {
  if (event.type === 'stdout' || event.type === 'stderr') lines[event.type](event.data, atMs);
  if (event.type !== 'finished') return;
  const { reason, exitCode, durationMs } = event.result;
  say(dim(`${reason}, exit code ${exitCode}, ${durationMs.toFixed(0)} ms`));
}

/** Prints whole lines with the moment they arrived. */
function createLines(name: 'stdout' | 'stderr') {
  let rest = '';
  return (data: Uint8Array, atMs: number): void => {
    const parts = (rest + Buffer.from(data).toString()).split('\n');
    rest = parts.pop() ?? '';
    for (const line of parts) say(`${dim(`${atMs.toFixed(0).padStart(5)} ms ${name}`)}  ${line}`);
  };
}

async function verify(session: Session): Promise<void> {
  const startedAt = performance.now();
  const { state, result, message } = await session.verify();
  if (result === undefined) throw new Error(`the verification ended as ${state}: ${message}`);
  const { verdict, passedCount, testCount, assurance, tests } = result;
  const took = `${((performance.now() - startedAt) / 1_000).toFixed(1)} s`;
  const colour = verdict === 'PASSED' ? 'green' : 'red';
  say(
    `verdict ${styleText(colour, verdict)}, ${passedCount} of ${testCount} tests passed ${dim(`${assurance}, ${took}`)}`,
  );
  for (const test of tests.filter(({ role }) => role !== 'SENTINEL_FAIL')) say(describe(test));
}

function describe({ name, role, outcome }: TestResultInfo): string {
  return `  ${outcome === 'PASSED' ? '✓' : '✗'} ${name} ${dim(role?.toLowerCase() ?? '')}`;
}

async function main(): Promise<void> {
  using client = createClient(findAccess(process.env, undefined));
  try {
    await demonstrate(client);
  } catch (error) {
    const missing = error instanceof AssayError && /^(DATASET|SAMPLE)_NOT_FOUND$/.test(error.reason);
    if (!missing) throw error;
    say('no demo: ASSAY_DATASETS has no examples/hello-fix');
  }
}

main().catch((error: unknown) => {
  const { found, type } = toFailure(error);
  process.stderr.write(`demo: ${found}\n${type === undefined ? '' : `  type: ${type}\n`}`);
  process.exitCode = 1;
});
