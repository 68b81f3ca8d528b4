import { randomBytes } from 'node:crypto';
import type { Client } from '@connectrpc/connect';
import type { ShellService, Shell as WireShell } from '../../gen/assay/v1/shell_pb.js';
import { type Caller, present } from './caller.ts';
import type { Executions } from './executions.ts';
import { createShellHandle, type Shell } from './shell.ts';
import { type ShellInfo, toShellInfo } from './shell-info.ts';

export interface OpenShellOptions {
  /** The same id again returns the first shell. Random if absent, so that a retry opens no second shell. */
  id?: string;
  /** bash, dash, zsh, ash, sh or busybox sh, with arguments. Absent: bash where the image has it, else sh. */
  program?: readonly string[];
  /** Variables added to the session's. */
  env?: Readonly<Record<string, string>>;
  cwd?: string;
}

/** The shells of one session. */
export interface Shells {
  open(options?: OpenShellOptions): Promise<Shell>;
  /** A handle on a shell that exists. */
  get(id: string): Promise<Shell>;
  /** All of them, oldest first, closed ones too. */
  list(): AsyncIterable<ShellInfo>;
}

export function createShells(
  rpc: Client<typeof ShellService>,
  caller: Caller,
  executions: Executions,
  sessionId: string,
): Shells {
  async function learn(call: () => Promise<{ shell?: WireShell | undefined }>): Promise<ShellInfo> {
    const answer = await caller.repeatable(call);
    return toShellInfo(present(answer.shell, 'the shell'));
  }

  function handle(info: ShellInfo): Shell {
    const name = { sessionId, shellId: info.id };
    const calls = { get: () => learn(() => rpc.getShell(name)), close: () => learn(() => rpc.closeShell(name)) };
    return createShellHandle(calls, executions, info);
  }

  return {
    async open(options = {}) {
      const request = {
        sessionId,
        shellId: options.id ?? `shl_${randomBytes(12).toString('hex')}`,
        program: [...(options.program ?? [])],
        env: { ...options.env },
        workingDirectory: options.cwd ?? '',
      };
      return handle(await learn(() => rpc.openShell(request)));
    },
    get: async (shellId) => handle(await learn(() => rpc.getShell({ sessionId, shellId }))),
    async *list() {
      let pageToken = '';
      do {
        const query = { sessionId, pageToken };
        const page = await caller.repeatable(() => rpc.listShells(query));
        yield* page.shells.map(toShellInfo);
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
    },
  };
}
