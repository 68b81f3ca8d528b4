import { randomUUID } from 'node:crypto';
import type { Client } from '@connectrpc/connect';
import {
  type ExecutionService,
  ExecutionState,
  type Execution as WireExecution,
} from '../../gen/assay/v1/execution_pb.js';
import { type Caller, present } from './caller.ts';
import { createEventReader, type EventReader } from './event-reader.ts';
import type { EventStreams } from './event-streams.ts';
import { createExecution, type Execution, type TerminalSize } from './execution.ts';
import { type ExecutionResult, toResult } from './execution-event.ts';
import { followExecution, type OpenStream } from './follow.ts';
import { createInputWriter, type InputWriter } from './input-writer.ts';
import { type Program, toProgramField } from './program.ts';
import { toDate, toDuration } from './time.ts';

export interface ExecuteOptions {
  /** Chosen by the caller to find the execution again; random if absent. */
  id?: string;
  /** The shell to run in, after the commands it was given before; it has an env and a cwd of its own. */
  shellId?: string;
  env?: Readonly<Record<string, string>>;
  cwd?: string;
  /** How long the command may run. Absent: as long as the session lives. */
  timeoutMs?: number;
  /** Whether the command's stdin will be written. Otherwise it is empty. A terminal's is always open. */
  input?: boolean;
  /** Run it on a terminal of this size: all output is stdout, stdin is typed as it is, its end as the end-of-file character. */
  terminal?: TerminalSize;
  /** How many bytes of each stream the server keeps for late readers. */
  outputKeptBytes?: number;
  /** Where the command belongs in a trace of yours, as W3C Trace Context writes it. */
  traceparent?: string;
  /** Stops following, as `detach` does. The command goes on. */
  signal?: AbortSignal;
}

export interface AttachOptions {
  stdoutOffset?: number;
  stderrOffset?: number;
  /** Go on after the command's end until the last process that holds its streams is gone. */
  followBackground?: boolean;
  signal?: AbortSignal;
}

/** What is known of one execution. */
export interface ExecutionInfo {
  readonly id: string;
  readonly sessionId: string;
  /** The shell it runs in; undefined: a process of its own. */
  readonly shellId: string | undefined;
  readonly state: Exclude<keyof typeof ExecutionState, 'UNSPECIFIED'>;
  /** What was run, for people. */
  readonly summary: string;
  readonly startTime: Date | undefined;
  readonly result: ExecutionResult | undefined;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly inputOpen: boolean;
  readonly inputBytes: number;
  /** Whether a process still holds the output streams after the end. */
  readonly background: boolean;
}

/** The executions of one session. */
export interface Executions {
  execute(program: Program, options?: ExecuteOptions): Execution;
  attach(id: string, options?: AttachOptions): Execution;
  get(id: string): Promise<ExecutionInfo>;
  /** All of them, oldest first, page by page. */
  list(): AsyncIterable<ExecutionInfo>;
}

export function createExecutions(
  rpc: Client<typeof ExecutionService>,
  streams: EventStreams,
  caller: Caller,
  sessionId: string,
): Executions {
  function follow(executionId: string, reader: EventReader, open: OpenStream, signal?: AbortSignal): Execution {
    const detaching = new AbortController();
    const ending = signal === undefined ? detaching.signal : AbortSignal.any([signal, detaching.signal]);
    return createExecution({
      id: executionId,
      sessionId,
      events: followExecution(open, reader, caller, ending),
      stdin: (ready) => inputOf(executionId, ready),
      resize: async ({ rows, columns }) => {
        await caller.repeatable(() => rpc.resizeTerminal({ sessionId, executionId, size: { rows, columns } }));
      },
      signal: async (number) => {
        await caller.once(() => rpc.signalExecution({ sessionId, executionId, signal: number }));
      },
      cancel: async () => {
        await caller.repeatable(() => rpc.cancelExecution({ sessionId, executionId }));
      },
      detach: () => detaching.abort(),
    });
  }

  function attachFrom(executionId: string, reader: EventReader, followBackground: boolean) {
    const { stdout, stderr } = reader.offsets;
    const [stdoutOffset, stderrOffset] = [BigInt(stdout), BigInt(stderr)];
    return streams.attach({ sessionId, executionId, stdoutOffset, stderrOffset, followBackground });
  }

  function inputOf(executionId: string, ready: () => Promise<void>): InputWriter {
    return createInputWriter({
      ready,
      write: async (position, data, end) => {
        const offset = BigInt(position);
        const answer = await caller.repeatable(() => rpc.writeInput({ sessionId, executionId, offset, data, end }));
        return Number(answer.nextOffset);
      },
      close: () => caller.repeatable(() => rpc.closeInput({ sessionId, executionId })),
    });
  }

  return {
    execute(program, options = {}) {
      const executionId = options.id ?? `exe_${randomUUID().replaceAll('-', '')}`;
      const request = { sessionId, executionId, program: toProgramField(program), ...toRequestFields(options) };
      const reader = createEventReader({ stdout: 0, stderr: 0 }, false);
      // The same id never runs twice, so as long as no start was seen the whole request is simply sent again.
      const open: OpenStream = (seen) =>
        seen.started ? attachFrom(executionId, seen, false) : streams.execute(request, options.traceparent);
      return follow(executionId, reader, open, options.signal);
    },
    attach(executionId, options = {}) {
      const from = { stdout: options.stdoutOffset ?? 0, stderr: options.stderrOffset ?? 0 };
      const background = options.followBackground ?? false;
      const open: OpenStream = (seen) => attachFrom(executionId, seen, background);
      return follow(executionId, createEventReader(from, true), open, options.signal);
    },
    async get(executionId) {
      const answer = await caller.repeatable(() => rpc.getExecution({ sessionId, executionId }));
      return toExecutionInfo(present(answer.execution, 'the execution'));
    },
    async *list() {
      let pageToken = '';
      do {
        const query = { sessionId, pageToken };
        const page = await caller.repeatable(() => rpc.listExecutions(query));
        yield* page.executions.map(toExecutionInfo);
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
    },
  };
}

function toRequestFields(options: ExecuteOptions) {
  return {
    shellId: options.shellId ?? '',
    env: { ...options.env },
    workingDirectory: options.cwd ?? '',
    inputOpen: options.input ?? false,
    outputKeptBytes: BigInt(options.outputKeptBytes ?? 0),
    ...(options.terminal === undefined ? {} : { terminal: { ...options.terminal } }),
    ...(options.timeoutMs === undefined ? {} : { timeout: toDuration('timeoutMs', options.timeoutMs) }),
  };
}

function toExecutionInfo(wire: WireExecution): ExecutionInfo {
  return {
    id: wire.executionId,
    sessionId: wire.sessionId,
    shellId: wire.shellId || undefined,
    state: ExecutionState[wire.state] as ExecutionInfo['state'],
    summary: wire.summary,
    startTime: toDate(wire.startTime),
    result: wire.result && toResult(wire.result),
    stdoutBytes: Number(wire.stdoutBytes),
    stderrBytes: Number(wire.stderrBytes),
    inputOpen: wire.inputOpen,
    inputBytes: Number(wire.inputBytes),
    background: wire.background,
  };
}
