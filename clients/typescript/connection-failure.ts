import type { ConnectError } from '@connectrpc/connect';

/** What a connection that failed, or broke, tells of itself. */
export interface ConnectionFailure {
  readonly reason: 'SERVER_UNREACHABLE' | 'CONNECTION_LOST' | 'CERTIFICATE_NOT_TRUSTED' | 'WRONG_PROTOCOL';
  readonly message: string;
  /** Whether it may be otherwise a little later. */
  readonly transient: boolean;
  /** Whether nothing that was to be sent can have arrived. */
  readonly unsent: boolean;
}

/** Reads what node says of a connection, whatever code the transport chose for it. */
export function readConnectionFailure(failure: ConnectError, endpoint: string): ConnectionFailure {
  const causes = causesOf(failure);
  const codes = causes.map(({ code }) => code);
  // OpenSSL's own words; its message has addresses and lines of C around them.
  const said = causes.find(({ reason }) => typeof reason === 'string')?.reason ?? failure.rawMessage;
  // One that broke while it was read from says the same words, and may have carried something.
  if (causes.some(({ code, syscall }) => unreachable.has(code) && (syscall === 'connect' || syscall === 'getaddrinfo')))
    return { ...passing('SERVER_UNREACHABLE', `no server answers at ${endpoint} (${said})`), unsent: true };
  if (codes.some((code) => untrusted.test(code)))
    return lasting(
      'CERTIFICATE_NOT_TRUSTED',
      `the certificate of ${endpoint} is not trusted: ${said}; ` +
        'name a file with its authority in NODE_EXTRA_CA_CERTS, or give the option ca',
    );
  if (codes.some((code) => noHttp2.test(code)))
    return lasting('WRONG_PROTOCOL', `${endpoint} offers no HTTP/2 in its TLS, which gRPC needs (${said})`);
  if (codes.some((code) => noTls.test(code)))
    return lasting('WRONG_PROTOCOL', `${endpoint} does not speak TLS: the address may begin with http:// (${said})`);
  return passing('CONNECTION_LOST', `the connection to ${endpoint} broke (${said})`);
}

const unreachable: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
]);
/** The words of OpenSSL for a chain that does not hold, and node's for a name that is another. */
const untrusted =
  /^(UNABLE_TO_(GET|VERIFY|DE)|CERT_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_(CA|PURPOSE)|HOSTNAME_|ERR_TLS_CERT_)/;
const noHttp2 = /NO_APPLICATION_PROTOCOL/;
const noTls = /WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|UNEXPECTED_MESSAGE|UNKNOWN_PROTOCOL|RECORD_LAYER/;

function passing(reason: ConnectionFailure['reason'], message: string): ConnectionFailure {
  return { reason, message, transient: true, unsent: false };
}

function lasting(reason: ConnectionFailure['reason'], message: string): ConnectionFailure {
  return { reason, message, transient: false, unsent: true };
}

interface Cause {
  readonly code: string;
  readonly syscall?: unknown;
  readonly reason?: unknown;
}

/** An error, its causes, and those that a name with several addresses fails with. */
function causesOf(failure: Error): Cause[] {
  const found: unknown[] = [];
  for (let cause: unknown = failure; cause instanceof Error; cause = cause.cause)
    found.push(cause, ...(cause instanceof AggregateError ? cause.errors : []));
  return found.filter(
    (one): one is Error & Cause => one instanceof Error && 'code' in one && typeof one.code === 'string',
  );
}
