import { dirname } from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import type Docker from 'dockerode';
import { pack } from 'tar-stream';

export interface Ran {
  readonly code: number;
  readonly stdout: string;
}

/** Runs shell text as the agent in its own container. A process that keeps its stdout open is waited for. */
export async function runAsAgent(container: Docker.Container, command: readonly string[]): Promise<Ran> {
  const exec = await container.exec({
    Cmd: [...command],
    User: 'agent',
    WorkingDir: '/workspace',
    AttachStdout: true,
    AttachStderr: true,
  });
  const stream = await exec.start({});
  const [out, err] = [new PassThrough(), new PassThrough()];
  container.modem.demuxStream(stream, out, err);
  stream.on('end', () => [out, err].forEach((each) => void each.end()));
  const [stdout, stderr] = await Promise.all([text(out), text(err)]);
  const { ExitCode } = await exec.inspect();
  return { code: ExitCode ?? -1, stdout: `${stdout}${stderr}` };
}

/** Copies files to the agent's working directory, as its own. */
export async function copyToWorkspace(container: Docker.Container, files: ReadonlyMap<string, Buffer>): Promise<void> {
  const tar = pack();
  const owner = { uid: 1000, gid: 1000 };
  for (const folder of new Set([...files.keys()].map((name) => dirname(name)))) {
    tar.entry({ name: folder, type: 'directory', mode: 0o755, ...owner });
  }
  for (const [name, content] of files) tar.entry({ name, mode: 0o644, ...owner }, content);
  tar.finalize();
  await container.putArchive(tar as unknown as NodeJS.ReadableStream, { path: '/workspace' });
}
