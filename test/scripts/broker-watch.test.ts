import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type JetStreamClient, jetstream, jetstreamManager, StorageType } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { expect, inject, test } from 'vitest';
import { configureBroker } from '../../scripts/stack/broker-config.mjs';
import { watchBroker } from '../../scripts/stack/broker-watch.mjs';
import { createChild } from '../../scripts/stack/child.mjs';
import { createLogFile } from '../../scripts/stack/log-file.mjs';
import { accepts, freePort } from '../../scripts/stack/port.mjs';
import { fillDisk, mayMount, mountSmallDisk, unmountSmallDisk } from '../e2e/small-disk.ts';
import { runDirectory } from '../run.ts';

const mebibyte = 1_048_576;

/** A broker as the supervisor runs it, with its store on a file system of 64 MiB. */
async function startBroker() {
  const directory = mkdtempSync(join(runDirectory(), 'broker-'));
  const disk = join(directory, 'disk');
  mkdirSync(disk);
  mountSmallDisk(disk, 64);
  const port = await freePort();
  const broker = { ...configureBroker(disk, port), port };
  const log = createLogFile(join(directory, 'nats.log'));
  const child = createChild({
    ...{ name: 'nats', program: inject('natsServer'), args: ['-c', broker.config], env: process.env, log },
    terminal: false,
  });
  child.start();
  expect(await accepts('127.0.0.1', port, 60_000, () => false)).toBe(true);
  const notices: string[] = [];
  const stopWatching = watchBroker({ child, broker, graceMs: 10_000, onNotice: (text) => notices.push(text) });
  const { user, password } = JSON.parse(readFileSync(broker.authFile, 'utf8'));
  const connection = await connect({ servers: `127.0.0.1:${port}`, user, pass: password, maxReconnectAttempts: -1 });
  return {
    ...{ child, connection, notices, filler: join(disk, 'filler') },
    async stop() {
      stopWatching();
      await connection.close();
      await child.halt();
      log.close();
      unmountSmallDisk(disk);
      rmSync(directory, { recursive: true });
    },
  };
}

const isWritten = (js: JetStreamClient, stream: string) =>
  js.publish(`${stream}.x`, new Uint8Array(10_000), { timeout: 1_000 }).then(
    () => true,
    () => false,
  );

test.skipIf(!mayMount)(
  'a broker whose disk was full takes writes again when there is room, of every stream',
  async () => {
    const broker = await startBroker();
    try {
      const manager = await jetstreamManager(broker.connection);
      const streams = ['ONE', 'TWO'];
      const settings = { storage: StorageType.File, max_bytes: 16 * mebibyte };
      for (const name of streams) await manager.streams.add({ ...settings, name, subjects: [`${name}.>`] });
      const js = jetstream(broker.connection);
      const write = () => Promise.all(streams.map((stream) => isWritten(js, stream)));
      await expect.poll(write).toEqual([true, true]);
      fillDisk(broker.filler);
      await expect.poll(write).toEqual([false, false]);
      expect(broker.notices).toEqual([]);
      rmSync(broker.filler);
      await expect.poll(write).toEqual([true, true]);
      // What was taken before is still there, whether or not the broker had to be started again.
      expect((await manager.streams.info('ONE')).state.messages).toBeGreaterThanOrEqual(2);
      expect(broker.notices).toHaveLength(broker.child.restarts);
      for (const notice of broker.notices) expect(broker.child.log.lastLines(100).join('\n')).toContain(notice);
    } finally {
      await broker.stop();
    }
  },
);
