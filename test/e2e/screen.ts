import { setTimeout as delay } from 'node:timers/promises';
import type { Execution } from '../../clients/typescript/index.ts';

const patienceMs = 60_000;

/** What an execution has written to its terminal so far, and waiting for it. */
export interface Screen {
  readonly text: string;
  /** Resolves once the text contains this, or matches it. */
  shows(wanted: string | RegExp): Promise<void>;
}

export function watchScreen(execution: Execution): Screen {
  let text = '';
  let ended = false;
  let changed = Promise.withResolvers<void>();
  const change = () => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  const read = async () => {
    for await (const event of execution) {
      if (event.type !== 'stdout') continue;
      text += Buffer.from(event.data).toString('latin1');
      change();
    }
  };
  // Why it ended is told by its result.
  const end = () => {
    ended = true;
    change();
  };
  read().then(end, end);
  return {
    get text() {
      return text;
    },
    async shows(wanted) {
      const late = new AbortController();
      const over = delay(patienceMs, 'late', { signal: late.signal }).catch(() => undefined);
      while (typeof wanted === 'string' ? !text.includes(wanted) : !wanted.test(text)) {
        const found = ended ? 'ended' : await Promise.race([changed.promise, over]);
        if (found !== undefined) throw new Error(`${found}; expected ${wanted}, found ${JSON.stringify(text)}`);
      }
      late.abort();
    },
  };
}
