import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import Docker from 'dockerode';
import { afterAll, expect, test } from 'vitest';
import { withImageFiles } from '../../../services/sandbox-worker/docker/image-files.ts';
import { runDirectory, runId } from '../../run.ts';
import { baseImage, createScratchHost, socketPath } from './scratch-host.ts';

const host = createScratchHost();
afterAll(() => host.close());

/** Another way to the engine, which breaks off the first connections. */
async function openFlakyWay(broken: number): Promise<{ path: string; server: Server }> {
  const path = join(runDirectory(), `flaky-${process.pid}-${broken}.sock`);
  let left = broken;
  const server = createServer((socket: Socket) => {
    if (left-- > 0) return socket.destroy();
    const engine = connect(socketPath);
    for (const end of [socket, engine])
      end.on('error', () => {}).on('close', () => [socket, engine].map((s) => s.destroy()));
    socket.pipe(engine).pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return { path, server };
}

const countBytes = async (tar: AsyncIterable<Buffer>): Promise<number> => {
  let bytes = 0;
  for await (const chunk of tar) bytes += chunk.length;
  return bytes;
};

test('an image is read although the engine breaks off the first connections, and nothing is left', async () => {
  const installation = `${runId()}-files`;
  const { path, server } = await openFlakyWay(3);
  try {
    expect(await withImageFiles({ socketPath: path, installation }, baseImage(), countBytes)).toBeGreaterThan(
      1_048_576,
    );
  } finally {
    server.close();
  }
  const docker = new Docker({ socketPath, host: undefined });
  const left = await docker.listContainers({ all: true, filters: { name: [`assay-image-${installation}-`] } });
  expect(left).toEqual([]);
});
