import { DomainError } from '../../shared/domain-error.ts';

/** A place in a session's log: all before `position` in the journal is told, and the output there below `offset`. */
export interface LogCursor {
  readonly position: number;
  readonly offset: number;
}

export const logStart: LogCursor = { position: 0, offset: 0 };

export function formatCursor({ position, offset }: LogCursor): string {
  return `${position}.${offset}`;
}

/** Throws INVALID_CURSOR for what was never given out. */
export function parseCursor(text: string): LogCursor {
  if (text === '') return logStart;
  const found = /^(\d{1,15})\.(\d{1,16})$/.exec(text);
  if (found === null)
    throw new DomainError('INVALID_CURSOR', 'cursor: not a cursor of this session', { field: 'cursor' });
  return { position: Number(found[1]), offset: Number(found[2]) };
}
