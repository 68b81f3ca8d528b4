import type { Readable } from 'node:stream';
import { AssayError, type Execution, isEndOfProgram } from '../clients/typescript/index.ts';

/**
 * Passes our stdin on to an execution, as fast as the sandbox takes it, until either ends. A failure that the
 * execution's own stream does not tell is given to `fail`.
 */
export async function feedStdin(stdin: Readable, execution: Execution, fail: (error: unknown) => void): Promise<void> {
  try {
    await execution.started;
  } catch {
    return;
  }
  try {
    for await (const piece of stdin) await execution.stdin.write(piece as Uint8Array);
    await execution.stdin.end();
  } catch (error) {
    if (isEndOfProgram(error) || stdin.destroyed) return;
    if (error instanceof AssayError && error.reason === 'CLIENT_CLOSED') return;
    fail(error);
  }
}
