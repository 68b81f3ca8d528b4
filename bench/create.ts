import { alternate, type Bench, fasterIsLess } from './measured.ts';

/**
 * A session made from nothing and ready for commands, against the engine's bare create and start of the same image with
 * the same limits but the disk's, which the engine does not have. Removal is not timed.
 */
export const coldCreate: Bench = async ({ client, engine, setup }) => {
  const remove: Array<() => Promise<unknown>> = [];
  const body = {
    Image: setup.baseImage,
    Cmd: ['sleep', '1000'],
    User: '1000:1000',
    HostConfig: {
      NetworkMode: 'none',
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      PidsLimit: 512,
      Memory: 1_073_741_824,
      NanoCpus: 1_000_000_000,
    },
  };
  const ours = async () => {
    const session = await client.sessions.create({});
    remove.push(() => session.close());
  };
  const reference = async () => {
    const id = await engine.createAndStart(body);
    remove.push(() => engine.remove(id));
  };
  const clean = async () => {
    for (const one of remove.splice(0)) await one();
  };
  const rounds = 12;
  const all = { ours: [] as number[], reference: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    const { ours: a, reference: b } = await alternate(1, ours, reference, { ours: 1, reference: 1 });
    all.ours.push(a);
    all.reference.push(b);
    await clean();
  }
  const middle = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;
  return fasterIsLess({ ours: middle(all.ours), reference: middle(all.reference), samples: rounds });
};
