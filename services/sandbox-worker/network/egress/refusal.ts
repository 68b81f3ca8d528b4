/** Why the proxy does not do what it was asked, as the client will read it. */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: 400 | 403 | 431 | 502 | 503 | 504, message: string) {
    super(message);
    this.name = 'Refusal';
    this.status = status;
  }
}

const quoted = 64;

/** Something of the client's, short and harmless enough for a status line. */
export function show(text: string): string {
  const printable = text.replace(/[^\x21-\x7e]/g, '?');
  return `"${printable.length > quoted ? `${printable.slice(0, quoted)}...` : printable}"`;
}

/**
 * The whole answer of a connection that ends with it. The sentence is the reason phrase too, because that is all that
 * most programs show of a refused CONNECT.
 */
export function refusalText({ status, message }: Refusal): string {
  const body = `${message}\n`;
  return [
    `HTTP/1.1 ${status} ${message}`,
    'content-type: text/plain; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
    '',
    body,
  ].join('\r\n');
}
