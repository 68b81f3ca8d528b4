import { chmodSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import Docker from 'dockerode';
import { extract, type Pack, pack } from 'tar-stream';
import { inject } from 'vitest';
import { runDirectory, runId } from '../run.ts';

const agent = 1000;
const grader = 64_990;
const agentEnvironment = 'PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/agent LANG=C.UTF-8';
const library = new URL('../../runner/lib', import.meta.url).pathname;

export interface PlacedFile {
  readonly path: string;
  readonly content: string | Buffer;
  readonly owner?: 'agent' | 'grader';
  readonly mode?: number;
}

export interface GradingOptions {
  readonly image?: string;
  readonly workspace?: string;
  /** Placed before anything runs. Hidden tests belong in /grader/tests. */
  readonly files?: readonly PlacedFile[];
  /** Shell text that the agent's user runs before the tests, in the workspace. */
  readonly prepare?: string;
  /** Shell text that the grader's user runs in /grader/tests. */
  readonly command: string;
  /** The program to serve with; by default that of set-up. */
  readonly isolated?: string;
}

export interface Graded {
  readonly code: number;
  readonly prepareCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
  /** What the grader's user left in its report folder. */
  readonly reports: ReadonlyMap<string, Buffer>;
}

/**
 * Two users in one hardened container, as a grading has them: root may only become others, the spawner runs as the agent,
 * the tests as the grader. Everything is placed from outside before it starts.
 */
export async function gradeInContainer(options: GradingOptions): Promise<Graded> {
  const { dockerSocket, baseImage, isolatedPath } = inject('setup');
  const docker = new Docker({ socketPath: dockerSocket, host: undefined });
  const slot = mkdtempSync(join(runDirectory(), 'grading-'));
  chmodSync(slot, 0o755);
  cpSync(options.isolated ?? isolatedPath, join(slot, 'isolated'));
  cpSync(library, join(slot, 'lib'), { recursive: true });
  const container = await docker.createContainer({
    Image: options.image ?? baseImage,
    Labels: { 'dev.assay.installation': runId() },
    User: '0:0',
    Entrypoint: ['/bin/sh', '-c', script(options)],
    Cmd: [],
    WorkingDir: '/',
    HostConfig: {
      NetworkMode: 'none',
      CapDrop: ['ALL'],
      CapAdd: ['SETUID', 'SETGID', 'KILL'],
      SecurityOpt: ['no-new-privileges'],
      Memory: 2 ** 30,
      PidsLimit: 512,
      Mounts: [{ Type: 'bind', Source: slot, Target: '/run/assay', ReadOnly: true }],
    },
  });
  try {
    await container.putArchive(archive(options.files ?? []) as unknown as NodeJS.ReadableStream, { path: '/' });
    const stream = await container.attach({ stream: true, stdout: true, stderr: true });
    const [out, err] = [new PassThrough(), new PassThrough()];
    container.modem.demuxStream(stream, out, err);
    stream.on('end', () => [out, err].forEach((each) => void each.end()));
    const said = Promise.all([text(out), text(err)]);
    await container.start();
    const { StatusCode } = (await container.wait()) as { StatusCode: number };
    const [stdout, stderr] = await said;
    const reports = await readFolder(container, '/grader/reports');
    const prepared = reports.get('.prepare')?.toString().trim();
    const prepareCode = prepared === undefined || prepared === '' ? undefined : Number(prepared);
    return { code: StatusCode, prepareCode, stdout, stderr, reports };
  } finally {
    await container.remove({ force: true, v: true });
    rmSync(slot, { recursive: true, force: true });
  }
}

function script({ prepare, command, workspace = '/workspace' }: GradingOptions): string {
  const as = (uid: number) => `setpriv --reuid ${uid} --regid ${uid} --clear-groups`;
  const quote = (value: string) => `'${value.replaceAll("'", "'\\''")}'`;
  const grading = [
    `PATH=/usr/local/bin:/usr/bin:/bin HOME=/grader LANG=C.UTF-8 ASSAY_ISOLATED=/run/assay/isolated`,
    `ASSAY_LIB=/run/assay/lib ASSAY_REPORTS=/grader/reports ASSAY_TESTS=/grader/tests ASSAY_WORKSPACE=${workspace}`,
  ].join(' ');
  return [
    `cd ${workspace}`,
    ...(prepare === undefined
      ? []
      : [
          `${as(agent)} env -i ${agentEnvironment} sh -c ${quote(prepare)}; code=$?`,
          `${as(grader)} sh -c "echo $code > /grader/reports/.prepare"; [ $code = 0 ] || exit $code`,
        ]),
    ': >/tmp/.ready', // before anybody looks into it
    `${as(agent)} env -i ${agentEnvironment} /run/assay/isolated serve @assay-agent >>/tmp/.ready &`,
    'while ! grep -q ready /tmp/.ready; do kill -0 $! || exit 99; sleep 0.05; done',
    `cd /; exec ${as(grader)} env -i ${grading} sh -c ${quote(`cd /grader/tests && ${command}`)}`,
  ].join('\n');
}

function archive(files: readonly PlacedFile[]): Pack {
  const tar = pack();
  for (const name of ['grader', 'grader/tests', 'grader/reports']) {
    tar.entry({ name, type: 'directory', mode: 0o700, uid: grader, gid: grader });
  }
  for (const { path, content, owner = 'grader', mode = 0o600 } of files) {
    const id = owner === 'agent' ? agent : grader;
    tar.entry({ name: path.replace(/^\//, ''), mode, uid: id, gid: id }, content);
  }
  tar.finalize();
  return tar;
}

async function readFolder(container: Docker.Container, path: string): Promise<Map<string, Buffer>> {
  const found = new Map<string, Buffer>();
  const tar = extract();
  const stream = await container.getArchive({ path });
  stream.pipe(tar);
  for await (const entry of tar) {
    const content = await buffer(entry);
    if (entry.header.type === 'file') found.set(entry.header.name.replace(/^[^/]*\//, ''), content);
  }
  return found;
}
