import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import {
  outputLimit,
  type ProgramEnd,
  type ProgramOptions,
  type RunningProgram,
  type StartProgram,
} from './running-program.ts';

/** The frames of guest/launcher.c. */
const order = { start: 1, input: 2, end: 3, kill: 4 } as const;
const news = { output: 1, errors: 2, exit: 3 } as const;
const headerBytes = 12;

type Launcher = ChildProcessByStdio<Writable, Readable, null>;

interface Waiting {
  readonly file: string;
  readonly options: ProgramOptions;
  readonly said: { stdout: string; stderr: string };
  readonly end: PromiseWithResolvers<ProgramEnd>;
}

/** One small child that starts all programs. It is started when it is first needed, and again should it end. */
export function createLauncher(path: string): StartProgram {
  const waiting = new Map<number, Waiting>();
  let launcher: Launcher | undefined;
  let last = 0;

  function open(): Launcher {
    const opened = spawn(path, [], { env: {}, stdio: ['pipe', 'pipe', 'inherit'] });
    const gone = (why: string) => {
      if (launcher !== opened) return;
      launcher = undefined;
      for (const { file, end } of waiting.values()) end.reject(new Error(`${file} is lost: the launcher ${why}`));
      waiting.clear();
    };
    opened.on('error', (error) => gone(`could not be run: ${error.message}`));
    opened.on('exit', (code, signal) => gone(`ended with ${signal ?? code}`));
    opened.stdin.on('error', () => {});
    readFrames(opened.stdout, hear);
    // It lives as long as the worker and keeps it from nothing.
    opened.unref();
    for (const stream of [opened.stdin, opened.stdout] as unknown as { unref(): void }[]) stream.unref();
    return opened;
  }

  function hear(kind: number, number: number, payload: Buffer): void {
    const program = waiting.get(number);
    if (program === undefined) return;
    if (kind === news.exit) {
      waiting.delete(number);
      program.end.resolve({ ...program.said, ...readStatus(payload.readInt32LE(0)) });
      return;
    }
    const name = kind === news.output ? 'stdout' : 'stderr';
    if (program.said[name].length < outputLimit) program.said[name] += payload.toString();
    (name === 'stdout' ? program.options.onStdout : program.options.onStderr)?.(payload);
  }

  return (file, args, options): RunningProgram => {
    launcher ??= open();
    const { stdin } = launcher;
    const number = ++last;
    const end = Promise.withResolvers<ProgramEnd>();
    waiting.set(number, { file, options, said: { stdout: '', stderr: '' }, end });
    const send = (kind: number, payload: Buffer = Buffer.alloc(0)) => void stdin.write(frame(kind, number, payload));
    send(order.start, startPayload([file, ...args], options.env ?? {}));
    if (options.input !== undefined) {
      send(order.input, Buffer.from(options.input));
      send(order.end);
    }
    return { endInput: () => send(order.end), kill: () => send(order.kill), ended: end.promise };
  };
}

function frame(kind: number, number: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32LE(kind, 0);
  header.writeUInt32LE(number, 4);
  header.writeUInt32LE(payload.length, 8);
  return Buffer.concat([header, payload]);
}

function startPayload(args: readonly string[], env: Readonly<Record<string, string>>): Buffer {
  const count = Buffer.alloc(4);
  count.writeUInt32LE(args.length);
  const strings = [...args, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)];
  return Buffer.concat([count, ...strings.map((text) => Buffer.from(`${text}\0`))]);
}

function readFrames(stream: Readable, take: (kind: number, number: number, payload: Buffer) => void): void {
  let rest: Buffer = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (;;) {
      if (rest.length < headerBytes) return;
      const end = headerBytes + rest.readUInt32LE(8);
      if (rest.length < end) return;
      take(rest.readUInt32LE(0), rest.readUInt32LE(4), rest.subarray(headerBytes, end));
      rest = rest.subarray(end);
    }
  });
}

/** A status of wait(2). */
function readStatus(status: number): { code: number | undefined; signal: number | undefined } {
  const signal = status & 0x7f;
  return signal === 0 ? { code: (status >> 8) & 0xff, signal: undefined } : { code: undefined, signal };
}
