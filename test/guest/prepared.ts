import { encodeFrame, type } from './frame-codec.ts';
import type { TestWorker } from './test-worker.ts';

/** Asks for a nest and resolves with its pid. */
export async function nest(worker: TestWorker, number: number): Promise<number> {
  worker.send(encodeFrame(type.NEST, number));
  return (await worker.frame(type.NESTED, number)).payload.readUInt32LE(0);
}

/** Asks for a process in a nest and resolves with its pid. */
export async function prepare(worker: TestWorker, number: number): Promise<number> {
  const from = worker.frames.length;
  worker.send(encodeFrame(type.PREPARE, number));
  const told = () => worker.frames.slice(from).findLast((f) => f.type === type.NESTED && f.number === number);
  await worker.until(() => (told()?.payload.readUInt32LE(4) ?? 0) > 0);
  return told()?.payload.readUInt32LE(4) ?? 0;
}
