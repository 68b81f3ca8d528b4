import { randomUUID } from 'node:crypto';
import { Code, type ConnectError } from '@connectrpc/connect';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { fromConnectError, toConnectError } from '../../shared/rpc-error.ts';
import type { Tracing } from '../../shared/tracing.ts';
import type { Metrics } from '../metrics.ts';
import { goneClient, isGoneClient } from './gone-client.ts';

/** The life of one call in logs and metrics, whichever way it came in. */
export interface CallRecord {
  readonly requestId: string;
  /** What the next service is told of the trace; undefined while there is none. */
  readonly traceparent: string | undefined;
  /** Names the session as soon as it is known. */
  about(fields: { project?: string; keyId?: string; sessionId?: string }): void;
  /** Turns what was thrown into what travels; an unexpected error is logged in full here and nowhere else. */
  fail(error: unknown): ConnectError;
  /** Call once, at the end. */
  end(code: Code | undefined): void;
}

/** What a call brought along. */
export interface CallHeaders {
  readonly requestId: string | null | undefined;
  readonly traceparent: string | null | undefined;
}

export type CallRecords = (method: string, streaming: boolean, headers: CallHeaders) => CallRecord;

const requestIdShape = /^[\x21-\x7e]{1,128}$/;

export function createCallRecords(log: Logger, metrics: Metrics, tracing: Tracing | undefined): CallRecords {
  return (method, streaming, headers) => {
    const given = headers.requestId;
    const requestId = given && requestIdShape.test(given) ? given : randomUUID();
    const began = performance.now();
    const done = metrics.begin(method, streaming);
    const span = tracing?.begin({ name: method, kind: 'server', ...spanOf(method, headers, requestId) });
    let fields: Record<string, string> = {};
    let reason: string | undefined;
    return {
      requestId,
      traceparent: span?.traceparent,
      about(more) {
        fields = { ...fields, ...more };
      },
      fail(error) {
        const known = typed(error);
        const mapped = toConnectError(known, (cause) =>
          log.error({ ...fields, method, requestId, err: cause }, 'failed'),
        );
        reason = known instanceof DomainError ? known.reason : fromConnectError(mapped)?.reason;
        metrics.failed(reason ?? 'UNKNOWN');
        return mapped;
      },
      end(code) {
        const word = code === undefined ? 'ok' : codeWord(code);
        done(word);
        span?.end(spanEnd(word, fields), code === undefined ? undefined : (reason ?? word));
        const ms = Math.round((performance.now() - began) * 10) / 10;
        const line = { ...fields, method, requestId, code: word, ...(reason === undefined ? {} : { reason }), ms };
        // A line for every good call would be most of the log; what went wrong must be seen without asking.
        if (code === undefined || code === Code.Canceled) log.debug(line, 'call');
        else log.info(line, 'call refused');
      },
    };
  };
}

function spanOf(method: string, { traceparent }: CallHeaders, requestId: string) {
  const attributes = { 'rpc.system': 'grpc', 'rpc.method': method, 'assay.request_id': requestId };
  return { traceparent: traceparent ?? undefined, attributes };
}

function spanEnd(code: string, { project, sessionId }: Record<string, string>) {
  return {
    'rpc.code': code,
    ...(project === undefined ? {} : { 'assay.project': project }),
    ...(sessionId === undefined ? {} : { 'assay.session_id': sessionId }),
  };
}

/** `invalid_argument`, as Connect and Prometheus users know it. */
export function codeWord(code: Code): string {
  return (Code[code] ?? String(code)).replace(/\B[A-Z]/g, '_$&').toLowerCase();
}

/** The framework's own errors get a reason like every other error. */
function typed(error: unknown): unknown {
  if (isGoneClient(error)) return goneClient();
  const bare = error as Partial<ConnectError> | undefined;
  if (bare?.code !== Code.DeadlineExceeded || bare instanceof DomainError) return error;
  return deadlineExceeded();
}

export function deadlineExceeded(): DomainError {
  const message = 'the deadline of the call passed; what it began goes on: ask for it again';
  return new DomainError('DEADLINE_EXCEEDED', message);
}
