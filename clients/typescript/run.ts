import { createCollector } from './collector.ts';
import type { Execution } from './execution.ts';
import type { EndReasonName, ExecutionResult, StreamName } from './execution-event.ts';
import type { ExecuteOptions, Executions } from './executions.ts';
import { isEndOfProgram } from './input-writer.ts';
import type { Program } from './program.ts';

const defaultOutputBytes = 64 * 1024 * 1024;

export interface RunOptions extends Omit<ExecuteOptions, 'input'> {
  /** Bytes for the command's stdin. Absent: empty; on a terminal, its end is typed at once. */
  input?: Uint8Array | string | AsyncIterable<Uint8Array>;
  /** The most bytes to collect of each stream, 64 MiB unless given. What comes after is dropped. */
  maxOutputBytes?: number;
}

/** Bytes of a stream that the server did not keep: from the first that is missing to the first after them. */
export interface OutputGap {
  readonly stream: StreamName;
  readonly startOffset: number;
  readonly endOffset: number;
}

/** A command that ended, with what it wrote. */
export interface RunResult {
  readonly exitCode: number | undefined;
  readonly signal: number | undefined;
  readonly reason: EndReasonName;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  /** Whether bytes of the stream are missing here: over `maxOutputBytes`, or in a gap. */
  readonly stdoutTruncated: boolean;
  readonly stderrTruncated: boolean;
  /** Bytes that the server did not keep, by offset. */
  readonly gaps: readonly OutputGap[];
  readonly result: ExecutionResult;
}

/** Runs a command to its end and collects what it writes. */
export async function runProgram(
  executions: Executions,
  program: Program,
  options: RunOptions = {},
): Promise<RunResult> {
  const { input: given, maxOutputBytes = defaultOutputBytes, ...rest } = options;
  const input = given ?? (rest.terminal === undefined ? undefined : '');
  const execution = executions.execute(program, { ...rest, input: input !== undefined });
  const collecting = collect(execution, maxOutputBytes);
  if (input === undefined) return collecting;
  // The end of the command is the end, also when its input has more to give.
  return Promise.race([collecting, feed(execution, input).then(() => collecting)]);
}

async function collect(execution: Execution, limit: number): Promise<RunResult> {
  const streams = { stdout: createCollector(limit), stderr: createCollector(limit) };
  const gaps: OutputGap[] = [];
  for await (const event of execution) {
    if (event.type === 'stdout' || event.type === 'stderr') streams[event.type].add(event.data);
    else if (event.type === 'gap') {
      const { stream, startOffset, endOffset } = event;
      gaps.push({ stream, startOffset, endOffset });
    }
  }
  const result = await execution.result();
  const { stdout, stderr } = streams;
  return {
    exitCode: result.exitCode,
    signal: result.signal,
    reason: result.reason,
    stdout: stdout.bytes(),
    stderr: stderr.bytes(),
    stdoutTruncated: stdout.truncated || gaps.some((gap) => gap.stream === 'stdout'),
    stderrTruncated: stderr.truncated || gaps.some((gap) => gap.stream === 'stderr'),
    gaps,
    result,
  };
}

async function feed(execution: Execution, input: NonNullable<RunOptions['input']>): Promise<void> {
  try {
    if (typeof input === 'string' || input instanceof Uint8Array) return await execution.stdin.end(input);
    for await (const piece of input) await execution.stdin.write(piece);
    await execution.stdin.end();
  } catch (error) {
    // A command may end without reading its input; if it never started, reading its events tells why.
    if (isEndOfProgram(error)) return;
    await execution.started;
    await execution.cancel();
    throw error;
  }
}
