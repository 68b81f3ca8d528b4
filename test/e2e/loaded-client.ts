import { fileURLToPath } from 'node:url';
import {
  type CallOptions,
  type ChannelOptions,
  type Client,
  type ClientReadableStream,
  credentials,
  type GrpcObject,
  loadPackageDefinition,
  Metadata,
  type ServiceClientConstructor,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

/** What a service definition loaded at run time calls with: plain objects in, plain objects out. */
export interface LoadedClient {
  unary<Answer>(service: string, method: string, request: object): Promise<Answer>;
  stream<Answer>(service: string, method: string, request: object): AsyncIterable<Answer>;
  close(): void;
}

type Unary = (
  request: object,
  metadata: Metadata,
  options: CallOptions,
  done: (error: Error | null, answer: unknown) => void,
) => void;
type Streaming = (request: object, metadata: Metadata) => ClientReadableStream<unknown>;

const protos = fileURLToPath(new URL('../../proto', import.meta.url));
const files = ['session', 'execution', 'server'].map((name) => `assay/v1/${name}.proto`);

/** A grpc-js client made from the .proto files alone, as somebody without our generated code makes it. */
export function loadClient(endpoint: string, key: string, options: ChannelOptions = {}): LoadedClient {
  const definition = loadSync(files, { includeDirs: [protos], keepCase: true, longs: String, enums: String });
  const services = ((loadPackageDefinition(definition).assay as GrpcObject).v1 ?? {}) as GrpcObject;
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${key}`);
  const clients = new Map<string, Client>();
  const methodOf = <Method>(service: string, method: string): Method => {
    const Service = services[service] as ServiceClientConstructor;
    const client = clients.get(service) ?? new Service(new URL(endpoint).host, credentials.createInsecure(), options);
    clients.set(service, client);
    return (client as unknown as Record<string, CallableFunction>)[method]?.bind(client) as Method;
  };
  return {
    unary: (service, method, request) =>
      new Promise((resolve, reject) => {
        methodOf<Unary>(service, method)(request, metadata, { deadline: Date.now() + 30_000 }, (error, answer) =>
          error === null ? resolve(answer as never) : reject(error),
        );
      }),
    stream: (service, method, request) => methodOf<Streaming>(service, method)(request, metadata) as never,
    close() {
      for (const client of clients.values()) client.close();
    },
  };
}
