/** What node says of a stream or a connection whose other end is gone, or that was aborted. */
const codes: ReadonlySet<unknown> = new Set([
  'EPIPE',
  'ECONNRESET',
  'ECANCELED',
  'ABORT_ERR',
  'ERR_HTTP2_INVALID_STREAM',
  'ERR_HTTP2_STREAM_ERROR',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_PREMATURE_CLOSE',
]);

/**
 * Whether an error is that of a broken stream. Connections to brokers and workers break in the same words: whoever asks has to know
 * that the stream of the call itself is closed.
 */
export function isBrokenStream(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error.name === 'AbortError' || ('code' in error && codes.has(error.code));
}
