import type { Request, RequestHandler, Response } from './rpc-adapter.ts';

/** Counts requests until their responses are done. */
export interface InFlight {
  readonly handler: RequestHandler;
  /** Resolves when none is left, or when the time is up. */
  settled(withinMs: number): Promise<void>;
}

export function createInFlight(handler: RequestHandler): InFlight {
  let open = 0;
  let onNone = (): void => {};
  return {
    handler(request: Request, response: Response) {
      open += 1;
      response.once('close', () => {
        open -= 1;
        if (open === 0) onNone();
      });
      handler(request, response);
    },
    settled(withinMs) {
      if (open === 0) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, withinMs);
        onNone = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    },
  };
}
