import type { TestProject } from 'vitest/node';
import { ensureCurrentBroker } from '../scripts/setup/current-broker.mjs';

/** Gives the tests of a project a current nats-server in place of the machine's. */
export default async function currentBroker(project: TestProject): Promise<void> {
  project.provide('natsServer', await ensureCurrentBroker());
}
