import { Readable, Writable } from 'node:stream';
import type { Terminal } from '../../cli/context.ts';
import { runCommandLine } from '../../cli/main.ts';

export interface Captured {
  readonly code: number;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Runs a command line in this process with streams of its own. */
export async function runCaptured(
  args: readonly string[],
  endpoint: string,
  stdin = '',
  key = 'assay_test_key',
): Promise<Captured> {
  const [stdout, stderr] = [createCapture(), createCapture()];
  const terminal: Terminal = {
    stdin: Readable.from([Buffer.from(stdin)]),
    stdout: stdout.stream,
    stderr: stderr.stream,
    env: { ASSAY_ENDPOINT: endpoint, ASSAY_API_KEY: key },
  };
  const code = await runCommandLine(args, terminal);
  return { code, stdout: stdout.bytes(), stderr: stderr.bytes().toString() };
}

function createCapture() {
  const pieces: Buffer[] = [];
  const stream = new Writable({
    write(piece: Buffer, _, done) {
      pieces.push(piece);
      done();
    },
  });
  return { stream, bytes: () => Buffer.concat(pieces) };
}
