import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import type { WorkShares } from '../../shared/work-shares.ts';
import { requireCaller } from '../auth/caller.ts';
import type { ExecutionTarget } from '../execution/execution-target.ts';
import { explainError } from '../session/explain-error.ts';
import type { SessionDirectory } from '../session/session-directory.ts';
import type { WorkerClient } from '../worker/worker-client.ts';

/** Asks the session's worker, which serves the same method. */
export type Forward = <I extends DescMessage, O extends DescMessage>(
  context: HandlerContext,
  method: DescMethodUnary<I, O>,
  message: MessageShape<I> & { readonly sessionId: string },
) => Promise<MessageShape<O>>;

export interface ForwardDeps {
  readonly sessions: SessionDirectory;
  readonly target: ExecutionTarget;
  readonly client: WorkerClient;
  readonly shares: Pick<WorkShares, 'turn'>;
}

/** Input waits until the program has read what came before, so it may take long; every retry is safe. */
const callTimeoutMs = 60_000;

export function createForward({ sessions, target, client, shares }: ForwardDeps): Forward {
  return async (context, method, message) => {
    const { project } = requireCaller(context);
    const { sessionId } = message;
    const address = await target(project, sessionId);
    const timeoutMs = Math.min(context.timeoutMs() ?? callTimeoutMs, callTimeoutMs);
    const options = { timeoutMs, signal: context.signal, turn: (bytes: number) => shares.turn(project, bytes) };
    try {
      return await client.call(address, method, message as MessageInitShape<typeof method.input>, options);
    } catch (error) {
      throw await explainError(sessions, project, sessionId, error);
    }
  };
}
