import { expect } from 'vitest';
import type { Execution, Session } from '../../clients/typescript/index.ts';
import type { SeededRandom } from './seeded-random.ts';

type Streams = { stdout: Buffer; stderr: Buffer };

/** What one execution runs, and what must come of it. */
function plan(number: number, { below, some }: SeededRandom): { text: string; expected: Streams; code: number } {
  // Some print more than a shared stream carries (256 KiB), or the guest keeps (1 MiB).
  const lines = some(0.2) ? 20_000 + below(130_000) : below(3_000);
  const errors = below(300);
  const code = number % 100;
  // A subshell, since a shell that is told to exit would.
  const text = `echo ${number} >>/tmp/ran
seq -f "${number} out %.0f" ${lines}; ${some(0.3) ? `sleep 0.${below(4)}` : ':'}
seq -f "${number} err %.0f" ${errors} >&2; (exit ${code})`;
  const written = (word: string, count: number) =>
    Buffer.from(Array.from({ length: count }, (_, index) => `${number} ${word} ${index + 1}\n`).join(''));
  return { text, code, expected: { stdout: written('out', lines), stderr: written('err', errors) } };
}

/** Reads events into `found` from where each stream stands, and stops after so many. False: it was the end. */
async function read(execution: Execution, found: Streams, offsets: { stdout: number; stderr: number }, most: number) {
  let left = most;
  for await (const event of execution) {
    if (event.type === 'gap')
      throw new Error(`a gap of ${event.stream} from ${event.startOffset} to ${event.endOffset}`);
    if (event.type === 'stdout' || event.type === 'stderr') {
      expect(event.offset).toBe(offsets[event.type]);
      const before = found[event.type].subarray(0, offsets[event.type]);
      const again = found[event.type].subarray(offsets[event.type], offsets[event.type] + event.data.length);
      // What comes a second time must be what came the first time.
      expect(Buffer.from(event.data).subarray(0, again.length).equals(again)).toBe(true);
      offsets[event.type] += event.data.length;
      if (offsets[event.type] > found[event.type].length) found[event.type] = Buffer.concat([before, event.data]);
    }
    if (--left <= 0 && event.type !== 'finished') return true;
  }
  return false;
}

/** Runs one, leaving and coming back at random places: every byte must come once, and its exit code. It writes its number to /tmp/ran. */
export async function runPlanned(
  session: Session,
  shellId: string | undefined,
  number: number,
  random: SeededRandom,
): Promise<void> {
  const { some, below } = random;
  const { text, expected, code } = plan(number, random);
  const id = `planned-${number}`;
  const found: Streams = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
  const offsets = { stdout: 0, stderr: 0 };
  let execution = session.execute(text, { id, ...(shellId === undefined ? {} : { shellId }) });
  while (await read(execution, found, offsets, some(0.5) ? 1 + below(6) : Number.POSITIVE_INFINITY)) {
    execution.detach();
    for (const stream of ['stdout', 'stderr'] as const)
      if (some(0.5)) offsets[stream] = below(found[stream].length + 1);
    execution = session.attach(id, { stdoutOffset: offsets.stdout, stderrOffset: offsets.stderr });
  }
  const result = await execution.result();
  expect([number, result.reason, result.exitCode]).toEqual([number, 'EXITED', code]);
  expect(found.stdout.equals(expected.stdout)).toBe(true);
  expect(found.stderr.equals(expected.stderr)).toBe(true);
}

/** Which of them the session has run, in order of their numbers. */
export async function numbersRun(session: Session): Promise<number[]> {
  const lines = String((await session.run('cat /tmp/ran')).stdout)
    .trim()
    .split('\n');
  return lines.map(Number).sort((a, b) => a - b);
}
