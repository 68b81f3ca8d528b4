import { isUtf8 } from 'node:buffer';
import { ReportError, type ReportLimits } from './test-row.ts';

/** The text of a report file, or why it is not one. */
export function reportText(bytes: Uint8Array, limits: ReportLimits): string {
  if (bytes.length > limits.bytes) throw new ReportError(`${bytes.length} bytes, more than ${limits.bytes}`);
  if (bytes.length === 0) throw new ReportError('empty');
  if (!isUtf8(bytes)) throw new ReportError('not UTF-8');
  return new TextDecoder().decode(bytes);
}
