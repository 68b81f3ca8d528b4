import { alternate, type Bench, fasterIsLess, fasterIsMore, timed } from './measured.ts';

/** One command after the other: a fresh process through the public API, against the engine's exec. */
export const directCommand: Bench = async ({ session, engine, container }) => {
  const ours = async () => {
    const { exitCode } = await session.run(['true']);
    if (exitCode !== 0) throw new Error(`true ended with ${exitCode}`);
  };
  const reference = () => engine.exec(container, ['true']);
  // A service is warm when it matters: the first commands after its start pay for compiling.
  for (let warm = 0; warm < 1_500; warm++) await ours();
  await reference();
  return fasterIsLess(await alternate(10, ours, reference, { ours: 50, reference: 5 }));
};

const inFlight = 32;

/** Thirty-two at a time: commands a second. */
export const commandsInFlight: Bench = async ({ session, engine, container }) => {
  async function rate(total: number, one: () => Promise<unknown>): Promise<number> {
    let left = total;
    const worker = async () => {
      while (left-- > 0) await one();
    };
    return total / ((await timed(() => Promise.all(Array.from({ length: inFlight }, worker)))) / 1000);
  }
  const ours = () => session.run(['true']);
  const reference = () => engine.exec(container, ['true']);
  await rate(200, ours);
  const rates = { ours: 0, reference: 0 };
  const rounds = 3;
  for (let round = 0; round < rounds; round++) {
    rates.ours += (await rate(1_000, ours)) / rounds;
    rates.reference += (await rate(64, reference)) / rounds;
  }
  return fasterIsMore('1/s', rates.ours, rates.reference, rounds * 1_000);
};
