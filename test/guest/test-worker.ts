import { EventEmitter, once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import {
  createFrameReader,
  encodeFrame,
  encodeStart,
  type Frame,
  readU64,
  type StartRequest,
  type,
  u32,
  u64,
} from './frame-codec.ts';

/** The bytes of one stream as a worker would spool them: an offset may repeat, it may never leave a hole. */
export interface Spool {
  readonly length: number;
  bytes(): Buffer;
}

export interface TestWorker {
  readonly frames: readonly Frame[];
  /** Acknowledge output as it comes (the default). */
  acknowledge: boolean;
  /** Take a hole in a stream for an error (the default). */
  checked: boolean;
  /** Answer HELLO with WELCOME (the default). */
  welcome: boolean;
  /** How many connections were accepted so far. */
  readonly connections: number;
  send(...frames: Buffer[]): void;
  start(number: number, request: StartRequest): void;
  signal(number: number, signal: number, scope: number): void;
  spool(number: number, stream: 1 | 2): Spool;
  /** The first frame of the kind from index `from` on, waited for. */
  frame(kind: number, number?: number, from?: number): Promise<Frame>;
  /** Resolves once `ready` holds; looked at after every frame. */
  until(ready: () => boolean): Promise<void>;
  connected(count: number): Promise<void>;
  disconnected(): Promise<void>;
  drop(): void;
  pause(): void;
  resume(): void;
  close(): Promise<void>;
}

export async function createTestWorker(path: string): Promise<TestWorker> {
  const changed = new EventEmitter().setMaxListeners(0);
  const frames: Frame[] = [];
  const spools = new Map<string, { length: number; chunks: Buffer[] }>();
  let socket: Socket | undefined;
  let connections = 0;

  function spoolOf(number: number, stream: number) {
    const key = `${number}/${stream}`;
    const spool = spools.get(key) ?? { length: 0, chunks: [] };
    spools.set(key, spool);
    return spool;
  }

  function takeOutput(frame: Frame): void {
    const spool = spoolOf(frame.number, frame.stream);
    const offset = readU64(frame.payload, 0);
    if (offset > spool.length && !worker.checked) return;
    if (offset > spool.length) throw new Error(`a hole: offset ${offset}, expected at most ${spool.length}`);
    const fresh = frame.payload.subarray(8 + spool.length - offset);
    if (fresh.length > 0) {
      spool.chunks.push(fresh);
      spool.length += fresh.length;
    }
    if (worker.acknowledge) worker.send(encodeFrame(type.ACK, frame.number, u64(spool.length), frame.stream));
  }

  function take(frame: Frame): void {
    frames.push(frame);
    if (frame.type === type.HELLO && worker.welcome) worker.send(encodeFrame(type.WELCOME, 0));
    if (frame.type === type.OUTPUT) takeOutput(frame);
    changed.emit('change');
  }

  const server = createServer((accepted) => {
    socket?.destroy();
    socket = accepted;
    connections += 1;
    const read = createFrameReader(take);
    accepted.on('data', read);
    accepted.on('error', () => {});
    accepted.on('close', () => {
      if (socket === accepted) socket = undefined;
      changed.emit('change');
    });
    changed.emit('change');
  });
  server.listen(path);
  await once(server, 'listening');

  async function until(ready: () => boolean): Promise<void> {
    while (!ready()) await once(changed, 'change');
  }

  const worker: TestWorker = {
    frames,
    acknowledge: true,
    checked: true,
    welcome: true,
    get connections() {
      return connections;
    },
    send: (...sent) => void socket?.write(Buffer.concat(sent)),
    start: (number, request) => worker.send(encodeStart(number, request)),
    signal: (number, signal, scope) => worker.send(encodeFrame(type.SIGNAL, number, u32(signal, scope))),
    spool: (number, stream) => {
      const spool = spoolOf(number, stream);
      return {
        get length() {
          return spool.length;
        },
        bytes: () => Buffer.concat(spool.chunks),
      };
    },
    frame: async (kind, number, from = 0) => {
      const find = () =>
        frames.slice(from).find((f) => f.type === kind && (number === undefined || f.number === number));
      await until(() => find() !== undefined);
      return find() as Frame;
    },
    until,
    connected: (count) => until(() => connections >= count && socket !== undefined),
    disconnected: () => until(() => socket === undefined),
    drop: () => {
      socket?.destroy();
      socket = undefined;
    },
    pause: () => void socket?.pause(),
    resume: () => void socket?.resume(),
    close: async () => {
      socket?.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  return worker;
}

/** EXIT as a worker would record it. */
export function readExit(frame: Frame) {
  const status = frame.payload.readInt32LE(0);
  return {
    signal: status & 0x7f,
    code: (status >> 8) & 0xff,
    userMicros: readU64(frame.payload, 4),
    systemMicros: readU64(frame.payload, 12),
    peakKib: readU64(frame.payload, 20),
    stdout: readU64(frame.payload, 28),
    stderr: readU64(frame.payload, 36),
    micros: readU64(frame.payload, 44),
    flags: frame.payload.readUInt32LE(52),
  };
}
