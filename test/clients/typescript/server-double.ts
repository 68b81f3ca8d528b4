import { once } from 'node:events';
import * as http2 from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { Code, ConnectError, type ConnectRouter, type ServiceImpl } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { ExecutionService } from '../../../gen/assay/v1/execution_pb.js';
import { SampleService } from '../../../gen/assay/v1/sample_pb.js';
import { ServerService } from '../../../gen/assay/v1/server_pb.js';
import { SessionService } from '../../../gen/assay/v1/session_pb.js';
import { VerificationService } from '../../../gen/assay/v1/verification_pb.js';
import { WorkerService } from '../../../gen/assay/v1/worker_pb.js';
import { ErrorInfoSchema } from '../../../gen/google/rpc/error_details_pb.js';

export interface ServerDouble {
  readonly endpoint: string;
  /** Cuts every connection, as the death of the process would. */
  cut(): void;
  stop(): Promise<void>;
}

export interface DoubleServices {
  execution?: Partial<ServiceImpl<typeof ExecutionService>>;
  session?: Partial<ServiceImpl<typeof SessionService>>;
  server?: Partial<ServiceImpl<typeof ServerService>>;
  workers?: Partial<ServiceImpl<typeof WorkerService>>;
  sample?: Partial<ServiceImpl<typeof SampleService>>;
  verification?: Partial<ServiceImpl<typeof VerificationService>>;
}

/** A real gRPC server on loopback whose answers a test decides. */
export async function startServerDouble(services: DoubleServices, port = 0): Promise<ServerDouble> {
  const routes = (router: ConnectRouter) => {
    router.service(ExecutionService, services.execution ?? {});
    router.service(SessionService, services.session ?? {});
    router.service(SampleService, services.sample ?? {});
    if (services.server !== undefined) router.service(ServerService, services.server);
    if (services.workers !== undefined) router.service(WorkerService, services.workers);
    router.service(VerificationService, services.verification ?? {});
  };
  const server = http2.createServer(connectNodeAdapter({ routes }));
  const sockets = new Set<Socket>();
  server.on('session', (session) => session.on('error', () => undefined));
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  function cut(): void {
    for (const socket of sockets) socket.destroy();
  }
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    async stop() {
      const closed = once(server, 'close');
      server.close();
      cut();
      await closed;
    },
  };
}

/** An error as the services send it. */
export function refusal(reason: string, code: Code, metadata: Record<string, string> = {}): ConnectError {
  const info = { reason, domain: 'assay.dev', metadata };
  return new ConnectError(`refused: ${reason}`, code, undefined, [{ desc: ErrorInfoSchema, value: info }]);
}

export const unavailable = () => refusal('WORKER_UNREACHABLE', Code.Unavailable);
