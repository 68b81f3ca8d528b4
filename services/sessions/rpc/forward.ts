import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import { requireCaller } from '../auth/caller.ts';
import type { ExecutionTarget } from '../execution/execution-target.ts';
import { explainError } from '../session/explain-error.ts';
import type { SessionDirectory } from '../session/session-directory.ts';
import type { WorkerClient } from '../worker/worker-client.ts';

/** Asks the session's worker and unwraps what it says. */
export type Forward = <I extends DescMessage, O extends DescMessage, R>(
  context: HandlerContext,
  sessionId: string,
  method: DescMethodUnary<I, O>,
  message: MessageInitShape<I>,
  unwrap: (output: MessageShape<O>) => R | undefined,
) => Promise<R>;

export interface ForwardDeps {
  readonly sessions: SessionDirectory;
  readonly target: ExecutionTarget;
  readonly client: WorkerClient;
}

/** Input waits until the program has read what came before, so it may take long; every retry is safe. */
const callTimeoutMs = 60_000;

export function createForward({ sessions, target, client }: ForwardDeps): Forward {
  return async (context, sessionId, method, message, unwrap) => {
    const { project } = requireCaller(context);
    const address = await target(project, sessionId);
    const timeoutMs = Math.min(context.timeoutMs() ?? callTimeoutMs, callTimeoutMs);
    const output = await client
      .call(address, method, message, { timeoutMs, signal: context.signal })
      .catch(async (error) => Promise.reject(await explainError(sessions, project, sessionId, error)));
    const response = unwrap(output);
    if (response === undefined) throw new TypeError(`the worker answered ${method.name} with nothing`);
    return response;
  };
}
