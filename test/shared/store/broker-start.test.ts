import { connect } from '@nats-io/transport-node';
import { expect, onTestFinished, test } from 'vitest';
import { connectBroker } from '../../../services/shared/store/broker.ts';
import { checkBrokerVersion } from '../../../services/shared/store/broker-version.ts';
import { clusterPorts, startNode } from './nats-cluster.ts';
import { type NatsProcess, startNats } from './nats-process.ts';

const optionsOf = ({ url, user, password }: NatsProcess) => ({ url, user, password, name: 'test', replicas: 1 });

test('a service that starts before its broker listens waits, says why, and goes on when the broker is there', async () => {
  const nats = await startNats();
  onTestFinished(() => nats.stop());
  await nats.kill();
  const said: string[] = [];
  const connecting = connectBroker({ ...optionsOf(nats), onWaiting: (message) => said.push(message) });
  await expect
    .poll(() => said[0])
    .toMatch(/^the broker at 127\.0\.0\.1:\d+ is not ready \(.*refused.*\); retry in 250 ms$/);
  await nats.start();
  const broker = await connecting;
  await broker.ping();
  await broker.close();
});

test('a cluster is refused in words where its nats-server is older than 2.11', async () => {
  const nats = await startNode(await clusterPorts(1), 0);
  onTestFinished(() => nats.stop());
  const { url, user, password } = nats;
  const nc = await connect({ servers: url, user, pass: password });
  onTestFinished(() => nc.close());
  if (nc.info === undefined) throw new Error('the broker said nothing of itself');
  const { version } = nc.info;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  // A lone node of a cluster that is not refused would wait for a leader.
  if (major > 2 || minor >= 11) return checkBrokerVersion(nc.info, 1);
  await expect(connectBroker(optionsOf(nats))).rejects.toThrow(
    `nats-server ${version} and it belongs to the cluster "test"; a cluster needs nats-server 2.11 or newer`,
  );
});

test('a single node is taken in every version, and replicas are refused with an old one', () => {
  const check = (version: string, replicas: number, cluster?: string) => () =>
    checkBrokerVersion({ version, ...(cluster === undefined ? {} : { cluster }) }, replicas);
  expect(check('2.9.10', 1)).not.toThrow();
  expect(check('2.9.21', 3)).toThrow('ASSAY_NATS_REPLICAS is 3; a cluster needs nats-server 2.11 or newer');
  expect(check('2.10.27', 1, 'c')).toThrow('belongs to the cluster "c"');
  for (const version of ['2.11.0', '2.15.2-RC.1', '3.0.0']) expect(check(version, 3, 'c')).not.toThrow();
});
