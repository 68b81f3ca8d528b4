import { Agent, type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';

/** The little of the engine's API that the references need, as lean as it can be. */
export interface EngineApi {
  /** Runs a program with `docker exec`'s calls: create, start, read to the end, inspect. Returns the exit code. */
  exec(container: string, args: readonly string[]): Promise<number>;
  createAndStart(body: object): Promise<string>;
  remove(id: string): Promise<void>;
}

export function createEngineApi(socketPath: string): EngineApi {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });

  async function call(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const headers = { 'content-type': 'application/json' };
    request({ socketPath, agent, method, path, headers }, resolve)
      .on('error', reject)
      .end(body && JSON.stringify(body));
    const response = await promise;
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    if ((response.statusCode ?? 500) >= 400) throw new Error(`${method} ${path}: ${response.statusCode} ${text}`);
    return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
  }

  function attach(path: string, body: object): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const headers = { 'content-type': 'application/json', connection: 'Upgrade', upgrade: 'tcp' };
    const asked = request({ socketPath, method: 'POST', path, headers });
    const read = (stream: Socket | IncomingMessage) => stream.on('end', resolve).on('error', reject).resume();
    asked.on('upgrade', (_, socket: Socket) => read(socket).on('end', () => socket.destroy()));
    asked.on('response', read);
    asked.on('error', reject).end(JSON.stringify(body));
    return promise;
  }

  return {
    async exec(container, args) {
      const body = { AttachStdout: true, AttachStderr: true, Cmd: args };
      const { Id } = await call('POST', `/containers/${container}/exec`, body);
      await attach(`/exec/${Id}/start`, { Detach: false, Tty: false });
      for (;;) {
        const { Running, ExitCode } = await call('GET', `/exec/${Id}/json`);
        if (Running === false && ExitCode !== null) return ExitCode as number;
      }
    },
    async createAndStart(body) {
      const { Id } = await call('POST', '/containers/create', body);
      await call('POST', `/containers/${Id}/start`);
      return Id as string;
    },
    async remove(id) {
      await call('DELETE', `/containers/${id}?force=true&v=true`);
    },
  };
}
