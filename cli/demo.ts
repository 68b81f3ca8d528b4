import { styleText } from 'node:util';
import { createClient, type ExecutionEvent, type Session } from '../clients/typescript/index.ts';
import { findAccess } from './access.ts';
import { toFailure } from './failure.ts';

const script = `
echo "hello from $(uname -s), I am $(id -un) in $(pwd)"
for n in 1 2 3; do echo "line $n"; sleep 0.2; done
echo "this went to stderr" >&2
exit 7`;

const dim = (text: string) => styleText('dim', text);
const say = (text: string) => process.stdout.write(`${text}\n`);

/** A short demonstration: a session, a command that streams while it runs, its result, and the end. */
async function demonstrate(session: Session, madeInMs: number): Promise<void> {
  say(`  session ${session.id} is ready after ${madeInMs.toFixed(0)} ms`);
  const startedAt = performance.now();
  const lines = { stdout: createLines('stdout'), stderr: createLines('stderr') };
  for await (const event of session.execute(script)) show(event, performance.now() - startedAt, lines);
  const quick = performance.now();
  const { stdout } = await session.run(['python3', '-c', 'print(6 * 7)']);
  say(
    `  python3 says ${stdout.toString().trim()} ${dim(`${(performance.now() - quick).toFixed(0)} ms, start to end`)}`,
  );
}

type Lines = Record<'stdout' | 'stderr', ReturnType<typeof createLines>>;

function show(event: ExecutionEvent, atMs: number, lines: Lines): void {
  if (event.type === 'stdout' || event.type === 'stderr') lines[event.type](event.data, atMs);
  if (event.type !== 'finished') return;
  const { reason, exitCode, durationMs, cpuTimeMs } = event.result;
  say(
    `  ended: ${reason}, exit code ${exitCode}, ${durationMs.toFixed(0)} ms, of which CPU ${cpuTimeMs.toFixed(0)} ms`,
  );
}

/** Prints whole lines with the moment they arrived. */
function createLines(name: 'stdout' | 'stderr') {
  let rest = '';
  return (data: Uint8Array, atMs: number): void => {
    const parts = (rest + Buffer.from(data).toString()).split('\n');
    rest = parts.pop() ?? '';
    for (const line of parts) say(`  ${dim(`${atMs.toFixed(0).padStart(5)} ms ${name}`)}  ${line}`);
  };
}

async function main(): Promise<void> {
  using client = createClient(findAccess(process.env, undefined));
  const startedAt = performance.now();
  await using session = await client.sessions.create({ labels: { demo: 'true' }, ttlMs: 60_000 });
  await demonstrate(session, performance.now() - startedAt);
  const { state } = await session.close();
  say(`  session ${state}`);
}

main().catch((error: unknown) => {
  const { found, type } = toFailure(error);
  process.stderr.write(`demo: ${found}\n${type === undefined ? '' : `  type: ${type}\n`}`);
  process.exitCode = 1;
});
