import { spawn } from 'node:child_process';
import { type Bench, fasterIsMore, median, settle, timed } from './measured.ts';

const bytes = 1_073_741_824;
const rounds = 5;

/** A gibibyte of output to a client, against the docker CLI into a pipe of the same process. */
export const output: Bench = async ({ session, container, setup }) => {
  const args = ['head', '-c', String(bytes), '/dev/zero'];
  const ours = async () => {
    let seen = 0;
    for await (const event of session.execute(args)) {
      if (event.type === 'stdout') seen += event.data.length;
      if (event.type === 'gap') throw new Error(`a gap from ${event.startOffset} to ${event.endOffset}`);
    }
    if (seen !== bytes) throw new Error(`${seen} bytes arrived, expected ${bytes}`);
  };
  const reference = async () => {
    const env = { ...process.env, DOCKER_HOST: `unix://${setup.dockerSocket}` };
    const docker = spawn('docker', ['exec', container, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    let seen = 0;
    for await (const chunk of docker.stdout) seen += (chunk as Buffer).length;
    if (seen !== bytes) throw new Error(`docker gave ${seen} bytes, expected ${bytes}`);
  };
  const rates = { ours: [] as number[], reference: [] as number[] };
  const rate = (ms: number) => bytes / 1e6 / (ms / 1000);
  for (let round = 0; round < rounds; round++) {
    rates.ours.push(rate(await timed(ours)));
    rates.reference.push(rate(await timed(reference)));
    await settle();
  }
  return fasterIsMore('MB/s', median(rates.ours), median(rates.reference), rounds);
};
