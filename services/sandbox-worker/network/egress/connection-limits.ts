import type { Server, Socket } from 'node:net';

/** The open connections to the proxy, counted by session and by project. */
export interface ConnectionLimits {
  /** Those of one session, which come from its listener. */
  of(listener: Server, project: string): SessionConnections;
}

export interface SessionConnections {
  add(client: Socket): Admission;
  close(): void;
}

export interface Admission {
  /** Why the connection is one too many; undefined: it is not. */
  readonly excess: string | undefined;
  /** The connection's first turn has come. Until then it is counted even if its client has left, because its turn is waited for. */
  begun(): void;
}

/**
 * As many connections again as a session may have are accepted to be told that they are too many. While those wait as well, what
 * connects is closed before anything is made of it.
 */
const acceptedFactor = 2;

export function createConnectionLimits(perSession: number, perProject: number): ConnectionLimits {
  const projects = new Map<string, number>();

  function count(project: string, change: 1 | -1): void {
    const open = (projects.get(project) ?? 0) + change;
    if (open === 0) projects.delete(project);
    else projects.set(project, open);
  }

  return {
    of(listener, project) {
      const sockets = new Set<Socket>();
      let open = 0;

      function change(by: 1 | -1): void {
        open += by;
        count(project, by);
        listener.maxConnections = open < perSession * acceptedFactor ? Number.POSITIVE_INFINITY : 0;
      }

      function excessOf(): string | undefined {
        if (open > perSession) return `the session has ${perSession} connections open, as many as it may`;
        if ((projects.get(project) ?? 0) > perProject)
          return `the project has ${perProject} connections open on this worker, as many as it may`;
        return undefined;
      }

      return {
        add(client) {
          let needs = 2;
          const release = (): void => {
            needs -= 1;
            if (needs === 0) change(-1);
          };
          change(1);
          sockets.add(client);
          client.on('close', () => {
            sockets.delete(client);
            release();
          });
          return { excess: excessOf(), begun: release };
        },
        close() {
          for (const client of sockets) client.destroy();
        },
      };
    },
  };
}
