import { pino } from 'pino';
import { expect, test } from 'vitest';
import { PauseReason } from '../../../gen/assay/v1/session_pb.js';
import { createDiskPressure } from '../../../services/sandbox-worker/host/disk-pressure.ts';
import type { Sandbox } from '../../../services/sandbox-worker/sandbox/sandbox.ts';
import { createWriterHold } from '../../../services/sandbox-worker/sandbox/writer-hold.ts';

const log = pino({ enabled: false });
const gibibyte = 2 ** 30;

/** A disk of 100 GiB with a floor of 1 GiB, of which a test says what is free. */
function watchedDisk({ totalBytes = 100 * gibibyte, floorInodes = 0 } = {}) {
  const room = { path: '/d', totalBytes, freeBytes: totalBytes, totalInodes: 1_000_000, freeInodes: 1_000_000 };
  let changes = 0;
  const changed = () => {
    changes += 1;
  };
  const pressure = createDiskPressure({ rooms: () => [room], floorBytes: gibibyte, floorInodes, changed, log });
  const look = (freeBytes: number, freeInodes = room.freeInodes) => {
    Object.assign(room, { freeBytes, freeInodes });
    pressure.look();
    return pressure.reason;
  };
  return { look, pressure, changes: () => changes };
}

test('pressure begins below the floor and ends a quarter above it', () => {
  const { look, changes } = watchedDisk();
  expect(look(gibibyte)).toBeUndefined();
  expect(look(gibibyte - 1)).toContain(
    '1073741823 bytes are free at /d, and the worker keeps 1073741824 bytes for itself',
  );
  expect(look(1.2 * gibibyte)).toBeDefined();
  expect(look(1.3 * gibibyte)).toBeUndefined();
  expect(changes()).toBe(2);
  expect(look(gibibyte / 2)).toContain('512 MiB are free at /d, and the worker keeps 1 GiB for itself');
});

test('inodes that run out are pressure too', () => {
  const { look } = watchedDisk({ floorInodes: 10_000 });
  expect(look(50 * gibibyte, 9_999)).toContain('9999 inodes are free');
});

test('a small disk has a small floor', () => {
  const { look } = watchedDisk({ totalBytes: gibibyte });
  expect(look(gibibyte / 10)).toBeUndefined();
  expect(look(gibibyte / 21)).toBeDefined();
});

test('sessions that write are held under pressure, others run on, and all go on when there is room', async () => {
  const { look, pressure } = watchedDisk();
  const used = new Map<string, number>([
    ['writer', 0],
    ['quiet', 0],
    ['paused', 0],
  ]);
  const sandbox = (sessionId: string) =>
    ({ sessionId, paused: sessionId === 'paused', held: undefined }) as unknown as Sandbox;
  const live = [...used.keys()].map(sandbox);
  const done: string[] = [];
  const hold = createWriterHold({
    ...{ pressure, log, usedBytes: ({ sessionId }) => used.get(sessionId) },
    sandboxes: {
      live,
      hold: async (held, why) => {
        done.push(`hold ${held.sessionId} ${PauseReason[why.pauseReason]}`);
        Object.assign(held, { paused: true, held: why });
      },
      letGo: async (held) => {
        done.push(`let go ${held.sessionId}`);
        Object.assign(held, { paused: false, held: undefined });
      },
    },
  });
  const write = (sessionId: string) => used.set(sessionId, (used.get(sessionId) ?? 0) + 2 ** 20);
  look(1.5 * gibibyte);
  hold.look(0);
  write('writer');
  write('paused');
  hold.look(200);
  expect(done).toEqual([]);
  look(0.9 * gibibyte);
  hold.look(400);
  await Promise.resolve();
  expect(done).toEqual(['hold writer DISK_PRESSURE']);
  write('quiet');
  hold.look(600);
  await Promise.resolve();
  expect(done).toEqual(['hold writer DISK_PRESSURE', 'hold quiet DISK_PRESSURE']);
  await new Promise(setImmediate);
  look(2 * gibibyte);
  hold.look(800);
  expect(done.slice(2)).toEqual(['let go writer', 'let go quiet']);
});
