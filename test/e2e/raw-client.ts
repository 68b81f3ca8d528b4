import { type Client, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { ExecutionService } from '../../gen/assay/v1/execution_pb.js';
import { SessionService } from '../../gen/assay/v1/session_pb.js';

/** The generated clients without anything of ours around them. */
export function createConnection(
  endpoint: string,
  key: string,
): { executions: Client<typeof ExecutionService>; sessions: Client<typeof SessionService> } {
  const transport = createGrpcTransport({
    baseUrl: endpoint,
    interceptors: [
      (next) => (request) => {
        request.header.set('authorization', `Bearer ${key}`);
        return next(request);
      },
    ],
  });
  return { executions: createClient(ExecutionService, transport), sessions: createClient(SessionService, transport) };
}
