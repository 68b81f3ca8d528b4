import { type ChildProcess, spawn } from 'node:child_process';
import type { Server } from 'node:net';
import { getSystemErrorName } from 'node:util';

/** Opens listening sockets inside sandboxes. */
export interface Door {
  /** Why this worker cannot; undefined: it can. It needs the right to enter namespaces. */
  obstacle(): Promise<string | undefined>;
  /** A server on 127.0.0.1 of the network namespace of the process. What connects comes from the sandbox alone. */
  listen(pid: number, port: number): Promise<Server>;
  close(): void;
}

const answerWithinMs = 5_000;

type Waiting = PromiseWithResolvers<Server>;

/** One small child for all sandboxes; it is started when it is first needed, and again should it end. */
export function createDoor(program: string): Door {
  const waiting = new Map<number, Waiting>();
  let child: ChildProcess | undefined;
  let asked = 0;

  function start(): ChildProcess {
    const started = spawn(program, { stdio: ['pipe', 'ignore', 'inherit', 'ipc'], env: {}, serialization: 'json' });
    started.on('message', (message: { id: number; error?: number }, handle) => {
      const found = waiting.get(message.id);
      waiting.delete(message.id);
      if (message.error !== undefined) found?.reject(new Error(getSystemErrorName(-message.error)));
      // Who no longer waits must not leave a listener behind.
      else if (found === undefined) (handle as Server).close();
      else found.resolve(handle as Server);
    });
    const ended = (error: Error) => {
      if (child === started) child = undefined;
      for (const [id, { reject }] of waiting) {
        waiting.delete(id);
        reject(error);
      }
    };
    started.on('error', ended);
    started.on('exit', (code, signal) => ended(new Error(`netdoor ended with ${signal ?? code}`)));
    started.stdin?.on('error', () => {});
    // It lives as long as the worker and keeps it from nothing.
    started.unref();
    started.channel?.unref();
    return started;
  }

  async function ask(pid: number, port: number): Promise<Server> {
    child ??= start();
    const id = ++asked;
    const answer: Waiting = Promise.withResolvers();
    waiting.set(id, answer);
    child.stdin?.write(`${id} ${pid} ${port}\n`);
    const timer = setTimeout(() => {
      waiting.delete(id);
      answer.reject(new Error(`netdoor did not answer within ${answerWithinMs} ms`));
    }, answerWithinMs);
    try {
      return await answer.promise;
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    async obstacle() {
      try {
        const listener = await ask(0, 0);
        listener.close();
        return undefined;
      } catch (error) {
        const { message } = error as Error;
        return message === 'EPERM' ? 'it needs root' : message;
      }
    },
    listen: ask,
    close: () => void child?.kill('SIGKILL'),
  };
}
