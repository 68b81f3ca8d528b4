import type { DescMethod } from '@bufbuild/protobuf';
import { createClient as createRpcClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, createClient, type Session } from '../../clients/typescript/index.ts';
import { ExecutionService } from '../../gen/assay/v1/execution_pb.js';
import { SessionService } from '../../gen/assay/v1/session_pb.js';
import { ShellService } from '../../gen/assay/v1/shell_pb.js';
import { reasonOf } from '../sessions/reason.ts';
import { startTestStack, type TestStack } from './stack.ts';

let stack: TestStack;
let session: Session;
let stranger: Client;
let strangerKey: string;
beforeAll(async () => {
  stack = await startTestStack();
  session = await stack.client.sessions.create({});
  const { secret } = await stack.client.keys.create({ scopes: ['ADMIN'], project: 'stranger' });
  strangerKey = secret;
  stranger = createClient({ endpoint: stack.endpoint, apiKey: secret });
});
afterAll(async () => {
  await session?.close();
  stranger?.close();
  await stack?.stop();
});

describe('another project', () => {
  const named = [...SessionService.methods, ...ExecutionService.methods, ...ShellService.methods].filter((method) =>
    method.input.fields.some((field) => field.name === 'session_id'),
  );

  /** Calls any method about the session and its execution `mine`, and resolves with the reason of the refusal. */
  async function refusal(method: DescMethod): Promise<unknown> {
    const transport = createGrpcTransport({
      baseUrl: stack.endpoint,
      interceptors: [
        (next) => (request) => {
          request.header.set('authorization', `Bearer ${strangerKey}`);
          return next(request);
        },
      ],
    });
    const client = createRpcClient(method.parent, transport) as unknown as Record<
      string,
      (request: unknown) => unknown
    >;
    const program = { case: 'command', value: 'touch /tmp/trace' };
    const size = { rows: 24, columns: 80 };
    const about = { executionId: 'mine', program, signal: 9, size };
    const request = { sessionId: session.id, ...(method.parent === ShellService ? { shellId: 'mine' } : about) };
    const answer = client[method.localName]?.(request);
    try {
      return method.methodKind === 'unary' ? await answer : await Array.fromAsync(answer as AsyncIterable<unknown>);
    } catch (error) {
      return reasonOf(error);
    }
  }

  test.each(named.map((method) => [method.name, method] as const))('finds no session with %s', async (_, method) => {
    expect(await refusal(method)).toBe('SESSION_NOT_FOUND');
  });

  test('sees and does nothing of it', async () => {
    const execution = session.execute('cat', { input: true, id: 'mine' });
    await execution.started;
    for (const method of named) await refusal(method);
    expect(await Array.fromAsync(stranger.sessions.list())).toEqual([]);
    expect((await session.refresh()).state).toBe('READY');
    await execution.stdin.end(Buffer.from('still here'));
    expect(await execution.result()).toMatchObject({ reason: 'EXITED', exitCode: 0, stdoutBytes: 10 });
    expect((await session.run('ls /tmp/trace')).exitCode).toBe(2);
  });

  test('has request ids and sessions of its own', async () => {
    const requestId = 'shared-name';
    const mine = await stack.client.sessions.create({ requestId });
    const theirs = await stranger.sessions.create({ requestId });
    expect(theirs.id).not.toBe(mine.id);
    expect((await Array.fromAsync(stranger.sessions.list())).map(({ id }) => id)).toEqual([theirs.id]);
    await expect(stack.client.sessions.get(theirs.id)).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' });
    await Promise.all([mine.close(), theirs.close()]);
  });

  test('sees no key but its own, and makes none elsewhere', async () => {
    const all = await Array.fromAsync(stack.client.keys.list());
    expect(all.map(({ project }) => project)).toEqual(['default']);
    expect((await Array.fromAsync(stranger.keys.list())).map(({ project }) => project)).toEqual(['stranger']);
    const revoking = stranger.keys.revoke(all[0]?.id ?? '');
    await expect(revoking).rejects.toMatchObject({ reason: 'KEY_NOT_FOUND' });
    const making = stranger.keys.create({ scopes: ['ADMIN'], project: 'default' });
    await expect(making).rejects.toMatchObject({ code: 'PERMISSION_DENIED' });
  });
});

describe('a revoked key', () => {
  test('is refused at once, and what it started goes on', async () => {
    const { key, secret } = await stack.client.keys.create({ scopes: ['AGENT'], description: 'soon gone' });
    const agent = createClient({ endpoint: stack.endpoint, apiKey: secret });
    const used = await agent.sessions.get(session.id);
    const execution = used.execute('cat', { input: true, id: 'outlives-its-key' });
    await execution.started;
    expect((await stack.client.keys.revoke(key.id)).revokeTime).toBeInstanceOf(Date);
    const refused = { reason: 'UNAUTHENTICATED' };
    await expect(used.refresh()).rejects.toMatchObject(refused);
    await expect(used.run('true')).rejects.toMatchObject(refused);
    await expect(used.attach(execution.id).result()).rejects.toMatchObject(refused);
    await expect(execution.stdin.write(Buffer.from('x'))).rejects.toMatchObject(refused);
    await expect(agent.sessions.create()).rejects.toMatchObject(refused);
    await expect(agent.server.info()).rejects.toMatchObject(refused);
    agent.close();
    expect((await session.execution('outlives-its-key')).state).toBe('RUNNING');
    await session.attach('outlives-its-key').cancel();
    expect(await stack.client.keys.revoke(key.id)).toMatchObject({ id: key.id });
  });
});
