import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createSealer } from '../../../services/sandbox-worker/submission/seal.ts';
import type { SealOrder } from '../../../services/sandbox-worker/submission/seal-work.ts';
import type { SubmissionThreads } from '../../../services/sandbox-worker/submission/submission-threads.ts';
import { createThreadPool } from '../../../services/sandbox-worker/submission/thread-pool.ts';
import { runDirectory } from '../../run.ts';
import { openRules } from './sealing-host.ts';

const digest = `sha256:${'1'.repeat(64)}`;

/** Threads that copy one byte, or never answer after `go`. */
function threadsThat(answer: boolean): SubmissionThreads {
  const copied = [
    { kind: 'copied', parts: [{ bytes: 1, files: 1, deletions: 0 }] },
    { kind: 'sealed', parts: [{ digest, archiveBytes: 1 }] },
  ];
  const script = `import { parentPort } from 'node:worker_threads';
import { writeFileSync } from 'node:fs';
parentPort.on('message', ({ kind, order }) => {
  if (kind === 'seal') {
    writeFileSync(order.parts[0].staged, '1');
    parentPort.postMessage({ kind: 'ready' });
  } else if (${answer}) for (const news of ${JSON.stringify(copied)}) parentPort.postMessage(news);
});`;
  return createThreadPool({ script: new URL(`data:text/javascript,${script}`), most: 2, heapMebibytes: 64 });
}

/** A sealer whose uploads the test lets end, one by one. */
function sealing(threads = threadsThat(true)) {
  const stagingDirectory = mkdtempSync(join(runDirectory(), 'sealing-'));
  onTestFinished(async () => {
    await threads.close();
    rmSync(stagingDirectory, { recursive: true });
  });
  const layer = { imageId: 'i', merged: '/', upper: '/', upperIsComplete: true } as SealOrder['layer'];
  const sealer = createSealer({
    engine: {
      hasLayers: true,
      layer: async () => layer as never,
      imageOf: async () => 'i',
      archived: () => ({}) as never,
    },
    manifests: { of: async () => 'manifest' } as never,
    threads,
    stagingDirectory,
  });
  const uploads = new Map<string, () => void>();
  const stood = { begun: 0, ended: 0 };
  const seal = (project: string, name = project, signal?: AbortSignal) => {
    const whileStill = async <T>(work: () => Promise<T>): Promise<T> => {
      stood.begun += 1;
      try {
        return await work();
      } finally {
        stood.ended += 1;
      }
    };
    const put = (_: string, file: string, ended?: AbortSignal): Promise<void> => {
      expect(existsSync(file)).toBe(true);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      ended?.addEventListener('abort', () => reject(ended.reason));
      uploads.set(name, resolve);
      return promise;
    };
    return sealer.seal({ containerId: 'c', project, whileStill }, openRules, { put }, { signal });
  };
  const uploading = (...names: string[]) => vi.waitFor(() => expect([...uploads.keys()].sort()).toEqual(names));
  return { seal, uploads, uploading, stood, staged: () => readdirSync(stagingDirectory) };
}

test('a project copies and uploads two submissions at a time, and another project does not wait for it', async () => {
  const { seal, uploads, uploading, stood, staged } = sealing();
  const greedy = ['g1', 'g2', 'g3', 'g4'].map((name) => seal('greedy', name));
  await uploading('g1', 'g2');
  const modest = seal('modest');
  await uploading('g1', 'g2', 'modest');
  // No session stands still, and no disk is filled, for what waits.
  expect([stood.begun, staged().length]).toEqual([3, 3]);
  uploads.get('modest')?.();
  await expect(modest).resolves.toMatchObject({ kind: 'sealed', digest });
  uploads.get('g1')?.();
  await uploading('g1', 'g2', 'g3', 'modest');
  uploads.get('g2')?.();
  await uploading('g1', 'g2', 'g3', 'g4', 'modest');
  for (const end of uploads.values()) end();
  await Promise.all(greedy);
  expect(staged()).toEqual([]);
});

test('a caller that is gone ends the waiting and the upload of its submissions, and nothing is left', async () => {
  const { seal, uploads, uploading, staged } = sealing();
  const caller = new AbortController();
  const gone = new Error('gone');
  const left = Promise.allSettled(['g1', 'g2', 'g3'].map((name) => seal('greedy', name, caller.signal)));
  await uploading('g1', 'g2');
  caller.abort(gone);
  expect(await left).toEqual([0, 1, 2].map(() => ({ status: 'rejected', reason: gone })));
  expect(staged()).toEqual([]);
  const next = seal('greedy', 'next');
  await uploading('g1', 'g2', 'next');
  uploads.get('next')?.();
  await next;
});

test('a caller that is gone ends the copying of its submission, and the session goes on', async () => {
  const { seal, stood, staged } = sealing(threadsThat(false));
  const caller = new AbortController();
  const left = seal('p', 'p', caller.signal);
  const ended = expect(left).rejects.toThrow('gone');
  await vi.waitFor(() => expect(stood.begun).toBe(1));
  caller.abort(new Error('gone'));
  await ended;
  expect([stood.ended, staged()]).toEqual([1, []]);
});
