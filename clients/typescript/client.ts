import { AssayError } from './assay-error.ts';
import { createCaller } from './caller.ts';
import { createConnection } from './connection.ts';
import { createKeys, type Keys } from './keys.ts';
import { createSamples, type Samples } from './samples.ts';
import { createServer, type Server } from './server.ts';
import { createSessions, type Sessions } from './sessions.ts';
import { createVerifications, type Verifications } from './verifications.ts';
import { createWorkers, type Workers } from './workers.ts';

export interface ClientOptions {
  /** Where the server listens, such as `http://127.0.0.1:7070`, or `https://…` where a proxy with TLS is in front. */
  endpoint: string;
  /** For https: certificates of authorities to trust beside those that Node does, as PEM. */
  ca?: string | readonly string[];
  /** An API key, `assay_<id>_<secret>`. */
  apiKey?: string | undefined;
  /** How long a call or stream is tried again after its server went away. 30 s unless given. */
  reconnectTimeoutMs?: number;
  /** The same while no server has answered yet. 5 s unless given. */
  connectTimeoutMs?: number;
  /** Asked for every call: where it belongs in a trace of yours, as W3C Trace Context writes it. */
  traceparent?: () => string | undefined;
}

export interface Client extends Disposable {
  readonly endpoint: string;
  readonly sessions: Sessions;
  readonly samples: Samples;
  readonly verifications: Verifications;
  readonly keys: Keys;
  readonly workers: Workers;
  readonly server: Server;
  /** Breaks every open call and frees the connection. Sessions and commands go on. */
  close(): void;
}

/** A client for one server. All calls share one connection, which is opened when it is first needed. */
export function createClient(options: ClientOptions): Client {
  const endpoint = toOrigin(options.endpoint);
  const connection = createConnection(endpoint, {
    apiKey: toKey(options.apiKey),
    ca: typeof options.ca === 'string' ? [options.ca] : options.ca,
    traceparent: options.traceparent,
  });
  const caller = createCaller({
    endpoint,
    reconnectTimeoutMs: options.reconnectTimeoutMs ?? 30_000,
    connectTimeoutMs: options.connectTimeoutMs ?? Math.min(5_000, options.reconnectTimeoutMs ?? 5_000),
  });
  function close(): void {
    caller.close();
    connection.close();
  }
  const verifications = createVerifications(connection.transport, caller);
  return {
    endpoint,
    sessions: createSessions(connection, caller, verifications),
    verifications,
    samples: createSamples(connection.transport, caller),
    keys: createKeys(connection.transport, caller),
    workers: createWorkers(connection.transport, caller),
    server: createServer(connection.transport, caller),
    close,
    [Symbol.dispose]: close,
  };
}

/** A key from a file often ends with its line. */
function toKey(given: string | undefined): string | undefined {
  const apiKey = given?.trim() || undefined;
  if (apiKey === undefined || /^[\x21-\x7e]+$/.test(apiKey)) return apiKey;
  throw new AssayError(
    'INVALID_OPTION',
    'the API key has characters that none has; give one such as assay_<id>_<secret>',
    {
      code: 'INVALID_ARGUMENT',
    },
  );
}

function toOrigin(endpoint: string): string {
  const url = URL.parse(endpoint);
  const known = url !== null && (url.protocol === 'http:' || url.protocol === 'https:');
  // The paths of gRPC are fixed, so one given here would be left out without a word.
  if (known && url.pathname === '/' && url.search === '' && url.username === '') return url.origin;
  throw new AssayError(
    'INVALID_OPTION',
    `the endpoint is ${JSON.stringify(endpoint)}; give an address such as http://127.0.0.1:7070`,
    { code: 'INVALID_ARGUMENT' },
  );
}
