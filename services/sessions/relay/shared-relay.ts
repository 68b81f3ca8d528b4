import { brokenStream, type ExecutionLine, type SharedExecution } from '../execution/execution-stream.ts';
import { errorOfStatus, isOurFault } from '../worker/worker-status.ts';
import type { GrpcCall } from './grpc-call.ts';
import { relay } from './relay.ts';

const ok = { 'grpc-status': '0' };

/**
 * Passes the events of an execution on that shares the worker's stream with others. One that has more to say than may go
 * that way goes on by a line. Resolves and rejects as `relay` does.
 */
export function relayShared(call: GrpcCall, execution: SharedExecution): Promise<Record<string, string> | undefined> {
  const { stream: down } = call;
  return new Promise((resolve, reject) => {
    let leave = (): void => {};
    let over = false;
    const finish = (run: () => void): void => {
      if (over) return;
      over = true;
      down.off('close', gone);
      stopListening();
      run();
    };
    const gone = (): void =>
      finish(() => {
        leave();
        resolve(undefined);
      });
    const goOn = (opened: ExecutionLine): void => resolve(relay(call, opened));
    down.on('close', gone);
    const stopListening = call.onOver(gone);
    if (down.destroyed || call.over) return gone();
    execution
      .begin({
        frames(bytes) {
          if (over || down.destroyed) return;
          call.begin();
          call.write(bytes);
        },
        end({ trailers, rest }) {
          finish(() => {
            if (rest !== undefined) return void execution.attach(rest).then(goOn, reject);
            if (trailers['grpc-status'] === undefined) return resolve(ok);
            if (isOurFault(trailers)) return reject(errorOfStatus(trailers));
            resolve(trailers);
          });
        },
        broken: (cause) => finish(() => reject(brokenStream(execution, cause))),
      })
      .then(
        (left) => {
          leave = left;
          if (over && down.destroyed) left();
        },
        (error) => finish(() => reject(error)),
      );
  });
}
