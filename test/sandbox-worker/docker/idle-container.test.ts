import { afterAll, expect, test } from 'vitest';
import { withIdleContainer } from '../../../services/sandbox-worker/docker/idle-container.ts';
import { baseImage, createScratchHost } from './scratch-host.ts';

const host = createScratchHost();
afterAll(() => host.close());

const idle = async (installation: string): Promise<string[]> => {
  const found = await host.docker.listContainers({ all: true, filters: { name: [`assay-image-${installation}-`] } });
  return found.map(({ Id }) => Id);
};

test("what a worker that was killed while it read an image has left goes when it starts again, and nobody else's", async () => {
  const mine = host.installation;
  const theirs = `${mine}-other`;
  const left = Promise.withResolvers<void>();
  const uses = [mine, theirs].map((installation) =>
    withIdleContainer({ docker: host.docker, installation }, baseImage(), {}, () => left.promise),
  );
  // The name of the one is the beginning of the other's.
  await expect.poll(async () => (await idle(mine)).length).toBe(2);
  const [other] = await idle(theirs);
  await host.engine({ installation: mine });
  expect(await idle(mine)).toEqual([other]);
  left.resolve();
  const [killed, used] = await Promise.allSettled(uses);
  expect([killed?.status, used?.status]).toEqual(['fulfilled', 'fulfilled']);
});
