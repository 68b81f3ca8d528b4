import type { TerminalSize } from '../../../gen/assay/v1/execution_pb.js';
import { checkRange, invalid } from './field.ts';

const limit = 1_000;

export function checkTerminalSize(field: string, size: TerminalSize | undefined): void {
  if (size === undefined) throw invalid(field, 'found none', 'rows and columns, such as 24 and 80');
  checkRange(`${field}.rows`, size.rows, 1, limit, 'lines');
  checkRange(`${field}.columns`, size.columns, 1, limit, 'characters');
}
