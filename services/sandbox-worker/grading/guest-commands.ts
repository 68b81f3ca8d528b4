import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { ack, type GuestExit, GuestViolation, type Stream, start } from '../guest/frame.ts';
import { type GuestLink, type LinkEvents, listenForGuest } from '../guest/link.ts';
import { createOutputKeeper, type OutputKeeper } from './kept-output.ts';

export interface GuestCommand {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly workingDirectory: string;
  readonly user: { readonly uid: number; readonly gid: number };
  readonly outputBytes: number;
}

/** How a command went, as the guest tells. */
export type GuestEnd =
  | { readonly kind: 'ended'; readonly exit: GuestExit }
  /** Nothing ran. */
  | { readonly kind: 'refused'; readonly step: number; readonly errno: number };

export interface RunningCommand {
  readonly stdout: OutputKeeper;
  readonly stderr: OutputKeeper;
  readonly over: boolean;
  /** Rejects when the guest is lost. */
  readonly ended: Promise<GuestEnd>;
  /** Resolves once it printed so many bytes, or has ended. */
  printed(bytes: number): Promise<void>;
}

/**
 * Commands of one container, started through its guest. Unlike an execution a command here has one reader, who keeps a
 * little of its output, and does not outlive this process: there is no spool, no journal and nothing to resume.
 */
export interface GuestCommands {
  /** Resolves when the guest is there; rejects when it is lost before. */
  readonly ready: Promise<void>;
  /** Until the guest is lost. */
  readonly alive: boolean;
  start(command: GuestCommand): RunningCommand;
  /** What is running then is lost. */
  close(): Promise<void>;
}

interface Live {
  readonly keepers: Readonly<Record<Stream, OutputKeeper>>;
  readonly acked: Record<Stream, number>;
  readonly end: PromiseWithResolvers<GuestEnd>;
  over: boolean;
  heard: () => void;
}

export async function listenForCommands(socketPath: string, secret: Uint8Array, log: Logger): Promise<GuestCommands> {
  const ready = Promise.withResolvers<void>();
  ready.promise.catch(() => {});
  const live = new Map<bigint, Live>();
  let last = 0n;
  let failure: Error | undefined;

  const fail = (message: string): void => {
    failure ??= new DomainError('SANDBOX_LOST', message);
    ready.reject(failure);
    for (const command of live.values()) {
      command.end.reject(failure);
      command.heard();
    }
  };
  const at = (number: bigint): Live => {
    const command = live.get(number);
    if (command === undefined) throw new GuestViolation(`a frame for command ${number}, which was never started`);
    return command;
  };
  const settle = (number: bigint, end: GuestEnd): void => {
    const command = at(number);
    command.over = true;
    command.end.resolve(end);
    command.heard();
  };
  const events: LinkEvents = {
    ...ignored,
    synced: () => ready.resolve(),
    output(number, stream, offset, data) {
      const command = at(number);
      const keeper = command.keepers[stream];
      if (offset !== keeper.totalBytes) throw new GuestViolation(`OUTPUT at ${offset}, expected ${keeper.totalBytes}`);
      keeper.take(data);
    },
    failed: (number, step, errno) => settle(number, { kind: 'refused', step, errno }),
    exit: (number, exit) => settle(number, { kind: 'ended', exit }),
    delivered() {
      for (const [number, command] of live) acknowledge(link, number, command);
    },
    disconnected: () => fail("the connection to the container's guest broke"),
    violated: (reason) => fail(`the container's guest broke the protocol: ${reason}`),
  };
  const link = await listenForGuest(() => socketPath, secret, events, log);

  return {
    ready: ready.promise,
    get alive() {
      return failure === undefined;
    },
    start({ args, env, workingDirectory, user, outputBytes }) {
      const keepers = { 1: createOutputKeeper(outputBytes), 2: createOutputKeeper(outputBytes) };
      const end = Promise.withResolvers<GuestEnd>();
      end.promise.catch(() => {});
      const command: Live = { keepers, acked: { 1: 0, 2: 0 }, end, over: false, heard() {} };
      last += 1n;
      live.set(last, command);
      const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
      const spec = { gated: false, nest: 0, inputOpen: false, workingDirectory, args, env: variables, user };
      if (failure === undefined) link.send(start(last, spec));
      else end.reject(failure);
      return {
        stdout: keepers[1],
        stderr: keepers[2],
        get over() {
          return command.over;
        },
        ended: end.promise,
        async printed(bytes) {
          while (keepers[1].totalBytes < bytes && !command.over && failure === undefined) {
            await new Promise<void>((resolve) => {
              command.heard = resolve;
            });
          }
        },
      };
    },
    async close() {
      fail('the container was closed');
      await link.close();
    },
  };
}

/** Nothing is kept but what fits into memory, so all that was heard is done with. */
function acknowledge(link: GuestLink, number: bigint, command: Live): void {
  let news = false;
  for (const stream of [1, 2] as const) {
    const { totalBytes } = command.keepers[stream];
    if (totalBytes === command.acked[stream]) continue;
    command.acked[stream] = totalBytes;
    link.send(ack(number, stream, totalBytes));
    news = true;
  }
  if (news) command.heard();
}

/** What does not matter to commands without input, shells and resumption. */
const ignored: Omit<LinkEvents, 'synced' | 'output' | 'failed' | 'exit' | 'delivered' | 'disconnected' | 'violated'> = {
  connected() {},
  state() {},
  spawned() {},
  started() {},
  inputAck() {},
  closed() {},
  unknown() {},
  nested() {},
  awaiting() {},
  shell() {},
};
