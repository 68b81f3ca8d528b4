import { setTimeout as delay } from 'node:timers/promises';
import { type Bench, median, timed } from './measured.ts';

const rounds = 20;
const warmUps = 5;
/** In this time the pool, if there is one, has containers for the next: one verification at a time is measured. */
const refillMs = 2_500;

/**
 * What a verification takes beside the test commands themselves and the pause in which the submission is copied: sealing,
 * the queue, fresh containers, reports, the verdict and the way back. The reference is the time of the commands.
 */
export const verificationOverhead: Bench = async ({ client }) => {
  await using session = await client.sessions.create({ sample: { dataset: 'examples', id: 'hello-fix' } });
  const overheads: number[] = [];
  const commands: number[] = [];
  const steps = new Map<string, number[]>();
  for (let round = -warmUps; round < rounds; round++) {
    let found: Awaited<ReturnType<typeof session.verify>> | undefined;
    await delay(refillMs);
    const wallMs = await timed(async () => {
      found = await session.verify({ force: true });
    });
    if (found?.result?.verdict !== 'FAILED') throw new Error(`${found?.id}: ${found?.result?.reason}`);
    if (round < 0) continue;
    const { result, submission } = found;
    const commandMs = result.testDurationMs;
    commands.push(commandMs);
    overheads.push(wallMs - commandMs - submission.pauseMs);
    for (const { step, durationMs } of [...result.steps, { step: 'PAUSE', durationMs: submission.pauseMs }])
      steps.set(step, [...(steps.get(step) ?? []), durationMs]);
  }
  const told = [...steps].map(([step, ms]) => `${step} ${median(ms).toFixed(0)}`);
  process.stderr.write(`verification, by step, p50 in ms: ${told.join(', ')}\n`);
  const [ours, reference] = [median(overheads), median(commands)];
  return { ours, reference, unit: 'ms', ratio: reference / ours, samples: rounds };
};
