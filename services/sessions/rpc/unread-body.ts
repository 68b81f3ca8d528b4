import type { Readable } from 'node:stream';

/** What is read, and thrown away, of the body of a call that was not let in: a small request may end in good order. */
export const refusedBodyBytes = 65_536;
export const refusedBodyMs = 1_000;

/**
 * Throws away what still comes of a body that nobody wants. Calls `drop` when that is more than `limitBytes`, or has not
 * ended in time: a client that is cut off while it sends may not read why.
 */
export function discardBody(body: Readable, limitBytes: number, withinMs: number, drop: () => void): void {
  let bytes = 0;
  const timer = setTimeout(drop, withinMs);
  body.once('close', () => clearTimeout(timer));
  body.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > limitBytes) drop();
  });
  body.resume();
}
