import { encodeFrame, encodeShellStart, encodeStart, type StartRequest, type, u64 } from './frame-codec.ts';
import { readExit, type TestWorker } from './test-worker.ts';

export interface Ran {
  readonly code: number;
  readonly signal: number;
  /** 1: the shell ended with it, 2: because it would not report. */
  readonly flags: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ShellDriver {
  readonly number: number;
  pid(): number;
  opened(): number;
  /** Resolves once the shell was opened so often. */
  untilOpened(times: number): Promise<void>;
  /** Gives it a command and returns the execution's number. */
  start(text: string | Uint8Array, options?: { input?: boolean }): number;
  ended(number: number): Promise<Ran>;
  run(text: string | Uint8Array): Promise<Ran>;
  /** Input and its end. */
  feed(number: number, bytes: string, offset?: number): void;
  endInput(number: number, length: number): void;
  interrupt(number: number): void;
  close(): Promise<void>;
}

const numbers = new WeakMap<TestWorker, number>();

/** The next number that a worker has not used. */
export function nextNumber(worker: TestWorker): number {
  const number = (numbers.get(worker) ?? 0) + 1;
  numbers.set(worker, number);
  return number;
}

const PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export async function openShell(worker: TestWorker, request: StartRequest): Promise<ShellDriver> {
  const number = nextNumber(worker);
  worker.send(encodeStart(number, { env: [PATH], cwd: '/tmp', ...request }, type.OPEN_SHELL));
  const last = () => worker.frames.findLast((f) => f.type === type.SHELL && f.number === number)?.payload;
  const failed = () => worker.frames.some((f) => f.type === type.FAILED && f.number === number);
  /** Where in the frames each execution began, so that nobody searches them all. */
  const begun = new Map<number, number>();
  const driver: ShellDriver = {
    number,
    pid: () => last()?.readUInt32LE(0) ?? 0,
    opened: () => last()?.readUInt32LE(4) ?? 0,
    untilOpened: async (times) => {
      await worker.until(() => (driver.opened() >= times && driver.pid() > 0) || failed());
      if (failed()) throw new Error(`the shell ${number} was not opened`);
    },
    start: (text, { input = false } = {}) => {
      const execution = nextNumber(worker);
      begun.set(execution, worker.frames.length);
      worker.send(encodeShellStart(execution, number, text, input));
      return execution;
    },
    ended: async (execution) => {
      const { code, signal, flags, stdout, stderr } = readExit(
        await worker.frame(type.EXIT, execution, begun.get(execution)),
      );
      if ((flags & 1) !== 0) await driver.untilOpened(driver.opened() + (reopened(execution) ? 0 : 1));
      const bytes = (stream: 1 | 2, length: number) =>
        worker.spool(execution, stream).bytes().subarray(0, length).toString();
      worker.send(encodeFrame(type.FORGET, execution));
      return { code, signal, flags, stdout: bytes(1, stdout), stderr: bytes(2, stderr) };
    },
    run: (text) => driver.ended(driver.start(text)),
    feed: (execution, bytes, offset = 0) =>
      worker.send(encodeFrame(type.INPUT, execution, Buffer.concat([u64(offset), Buffer.from(bytes)]))),
    endInput: (execution, length) => worker.send(encodeFrame(type.INPUT_END, execution, u64(length))),
    interrupt: (execution) => worker.send(encodeFrame(type.INTERRUPT, execution)),
    close: async () => {
      worker.send(encodeFrame(type.CLOSE_SHELL, number));
      await worker.until(() => last()?.readUInt32LE(0) === 0);
    },
  };
  /** Whether the shell was already opened again after the execution started. */
  function reopened(execution: number): boolean {
    const started = worker.frames.findIndex((f) => f.number === execution);
    return worker.frames.findLastIndex((f) => f.type === type.SHELL && f.number === number) > started;
  }
  if (request.gated) {
    await worker.frame(type.SPAWNED, number);
    worker.send(encodeFrame(type.GO, number));
  }
  await driver.untilOpened(1);
  return driver;
}
