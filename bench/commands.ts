import { alternate, type Bench, fasterIsLess, fasterIsMore, type Surroundings, timed } from './measured.ts';

type Run = (command: string) => Promise<{ exitCode: number | undefined }>;

/** A service is warm when it matters: its first thousands of commands pay for compiling, a fifth of their time. */
const warmUps = 5_000;
const inFlight = 32;
const shells = 8;

async function runTrue(run: Run): Promise<void> {
  const { exitCode } = await run('true');
  if (exitCode !== 0) throw new Error(`true ended with ${exitCode}`);
}

/** One command after the other, against the engine's exec. */
async function oneByOne({ engine, container }: Surroundings, run: Run) {
  const ours = () => runTrue(run);
  const reference = () => engine.exec(container, ['true']);
  for (let warm = 0; warm < warmUps; warm++) await ours();
  await reference();
  return fasterIsLess(await alternate(10, ours, reference, { ours: 50, reference: 5 }));
}

/** Thirty-two at a time: commands a second. Each of `runs` has its share of them. */
async function manyAtOnce({ engine, container }: Surroundings, runs: readonly Run[]) {
  async function rate(total: number, one: (lane: number) => Promise<unknown>): Promise<number> {
    let left = total;
    const lane = async (_: unknown, index: number) => {
      while (left-- > 0) await one(index);
    };
    return total / ((await timed(() => Promise.all(Array.from({ length: inFlight }, lane)))) / 1000);
  }
  const ours = (lane: number) => runTrue(runs[lane % runs.length] as Run);
  const reference = () => engine.exec(container, ['true']);
  await rate(warmUps, ours);
  const rates = { ours: 0, reference: 0 };
  const rounds = 3;
  for (let round = 0; round < rounds; round++) {
    rates.ours += (await rate(1_000, ours)) / rounds;
    rates.reference += (await rate(64, reference)) / rounds;
  }
  return fasterIsMore('1/s', rates.ours, rates.reference, rounds * 1_000);
}

/** A fresh process for each command. */
export const directCommand: Bench = (around) => oneByOne(around, (command) => around.session.run([command]));

/** The same shell for all commands. */
export function shellCommand(program: string): Bench {
  return async (around) => {
    await using shell = await around.session.openShell({ program: [program] });
    return await oneByOne(around, (command) => shell.run(command));
  };
}

export const commandsInFlight: Bench = (around) => manyAtOnce(around, [(command) => around.session.run([command])]);

/** Over eight shells, which run one command at a time each. */
export const shellCommandsInFlight: Bench = async (around) => {
  const opened = await Promise.all(Array.from({ length: shells }, () => around.session.openShell()));
  try {
    return await manyAtOnce(
      around,
      opened.map((shell) => (command) => shell.run(command)),
    );
  } finally {
    await Promise.all(opened.map((shell) => shell.close()));
  }
};
