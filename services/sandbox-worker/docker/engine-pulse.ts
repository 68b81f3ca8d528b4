import type { Logger } from '../../shared/log.ts';
import type { Engine } from './engine.ts';
import { saidBy } from './engine-failure.ts';

/** Whether the engine answers, by asking it every few seconds. */
export interface EnginePulse {
  /** What is wrong with it, in a sentence. Undefined: it answers. */
  readonly problem: string | undefined;
  /** Begins to ask. Calls back when it stops answering, and when it answers again. */
  start(changed: () => void): void;
  stop(): void;
}

export interface EnginePulseDeps {
  readonly engine: Pick<Engine, 'ping'>;
  readonly log: Logger;
}

const lookEveryMs = 3_000;
/** While it does not answer. */
const lookAgainMs = 500;

export function createEnginePulse({ engine, log }: EnginePulseDeps): EnginePulse {
  let problem: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  let changed = (): void => {};

  function find(now: string | undefined): void {
    if (stopped || (problem === undefined) === (now === undefined)) return;
    problem = now;
    if (now === undefined) log.info('the engine answers again');
    else log.warn({ reason: now }, 'the engine does not answer; no new sessions are taken');
    changed();
  }

  async function ask(): Promise<void> {
    const found = await engine.ping().then(
      () => undefined,
      (error: unknown) => `the engine does not answer: ${saidBy(error)}`,
    );
    find(found);
    if (!stopped) timer = setTimeout(() => void ask(), problem === undefined ? lookEveryMs : lookAgainMs);
  }

  return {
    get problem() {
      return problem;
    },
    start(listener) {
      changed = listener;
      void ask();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
