import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { SessionRecordSchema } from '../../../gen/assay/events/v1/records_pb.js';
import { SessionState } from '../../../gen/assay/v1/session_pb.js';
import { createSandboxes } from '../../../services/sandbox-worker/sandbox/sandboxes.ts';
import { log } from '../docker/scratch-host.ts';

/** One sandbox that was taken up, whose engine, deadlines and record write down what is asked of them. */
async function takenUp(engine: { pause?: () => void } = {}) {
  const asked: string[] = [];
  const sandbox = {
    sessionId: 's',
    file: { containerId: 'c' },
    paused: false,
    executions: { freeze: () => void asked.push('freeze'), thaw: () => void asked.push('thaw') },
    log: { ready() {}, tell() {} },
    guestReady: async () => {},
  };
  const sandboxes = createSandboxes({
    engine: {
      pid: async () => undefined,
      resume: async () => void asked.push('resume'),
      async pause() {
        asked.push('pause');
        engine.pause?.();
      },
    },
    maker: { reopen: async () => sandbox },
    networks: { reattach: async () => {} },
    records: { put: async (_project: string, _id: string, { type }: { type: string }) => void asked.push(type) },
    slots: { open: () => ({}) },
    log,
  } as never);
  const session = { sessionId: 's', state: SessionState.READY };
  await sandboxes.adopt(create(SessionRecordSchema, { project: 'p', session }), 'c');
  asked.length = 0;
  return { sandboxes, sandbox, asked };
}

test('no deadline runs from before the engine pauses a session until after it has resumed it', async () => {
  const { sandboxes, asked } = await takenUp();
  await sandboxes.pause('p', 's');
  expect(asked.slice(0, 2)).toEqual(['freeze', 'pause']);
  asked.length = 0;
  await sandboxes.resume('p', 's');
  expect(asked).toEqual(['resume', 'thaw', 'resumed']);
});

test('the deadlines of a session that the engine does not pause run on', async () => {
  const refuse = (): never => {
    throw new Error('no answer');
  };
  const { sandboxes, sandbox, asked } = await takenUp({ pause: refuse });
  await expect(sandboxes.pause('p', 's')).rejects.toThrow('no answer');
  expect(asked).toEqual(['freeze', 'pause', 'thaw']);
  expect(sandbox.paused).toBe(false);
});
