import { type MessagePort, parentPort } from 'node:worker_threads';
import { type ApplyNews, type ApplyOrder, applySubmission } from './apply-work.ts';
import { lookAtProtected, type ProtectionNews, type ProtectionOrder } from './protection-work.ts';
import { copyChanges, digestsOf, prepareSealing, type SealNews, type SealOrder } from './seal-work.ts';
import type { Failure } from './thread-pool.ts';

/** What a thread is told: to apply, to look at protected paths, or to seal, which begins with `go`, when nothing in the container moves any more. */
export type SubmissionOrder =
  | { readonly kind: 'apply'; readonly order: ApplyOrder }
  | { readonly kind: 'protection'; readonly order: ProtectionOrder }
  | { readonly kind: 'seal'; readonly order: SealOrder }
  | { readonly kind: 'go' };

export type SubmissionNews = SealNews | ApplyNews | ProtectionNews;

const port = parentPort as MessagePort;
let go = async (): Promise<void> => {};

port.on('message', async (said: SubmissionOrder) => {
  try {
    if (said.kind === 'apply') say(await applySubmission(said.order));
    else if (said.kind === 'protection') say(lookAtProtected(said.order));
    else if (said.kind === 'go') await go();
    else {
      const prepared = prepareSealing(said.order);
      go = async () => {
        const copied = await copyChanges(prepared);
        say(copied);
        if (copied.kind === 'copied') say(digestsOf(said.order));
      };
      say({ kind: 'ready' });
    }
  } catch (error) {
    say({ kind: 'failed', message: error instanceof Error ? error.message : String(error) });
  }
});

function say(news: SubmissionNews | Failure): void {
  port.postMessage(news);
}
