import type { ServiceImpl } from '@connectrpc/connect';
import type { ShellService } from '../../../gen/assay/v1/shell_pb.js';
import type { Sandboxes } from '../sandbox/sandboxes.ts';
import { checkAwake } from '../sandbox/standstill.ts';
import { shellViewOf } from '../shell/shell-view.ts';
import type { Shells } from '../shell/shells.ts';
import { pageOf } from './page.ts';

export function createShellCalls(sandboxes: Sandboxes): ServiceImpl<typeof ShellService> {
  const shellsOf = (sessionId: string): Shells => sandboxes.use(sessionId).executions.shells;
  /** Of a session whose guest can do something. */
  const awakeShellsOf = (sessionId: string): Shells => {
    const sandbox = sandboxes.use(sessionId);
    checkAwake(sandbox);
    return sandbox.executions.shells;
  };
  return {
    async openShell(request) {
      const { sessionId } = request;
      return { shell: shellViewOf(sessionId, await awakeShellsOf(sessionId).open(request)) };
    },
    getShell: ({ sessionId, shellId }) => ({ shell: shellViewOf(sessionId, shellsOf(sessionId).find(shellId)) }),
    listShells({ sessionId, pageSize, pageToken }) {
      const shells = shellsOf(sessionId);
      const { shown, nextPageToken } = pageOf(pageSize, pageToken, (after, limit) => shells.list(after, limit));
      return { shells: shown.map((shell) => shellViewOf(sessionId, shell)), nextPageToken };
    },
    async closeShell({ sessionId, shellId }) {
      const shell = awakeShellsOf(sessionId).find(shellId);
      await shell.close();
      return { shell: shellViewOf(sessionId, shell) };
    },
  };
}
