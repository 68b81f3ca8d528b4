import { readFileSync } from 'node:fs';
import { Code } from '@connectrpc/connect';
import { expect, test } from 'vitest';
import { ErrorReasonSchema } from '../../gen/assay/v1/errors_pb.js';
import { reasons } from '../../services/shared/error-reason.ts';

const proto = readFileSync(new URL('../../proto/assay/v1/errors.proto', import.meta.url), 'utf8');
const shape =
  /^ {2}\/\/ ([A-Z].*\.) Code: (\w+)\. Metadata: ([\w, ]+)\. Retry: (yes|no)\.\n {2}ERROR_REASON_(\w+) = \d+;$/gm;
const comments = [...proto.matchAll(shape)].map(([, meaning, code, metadata, retry, reason]) => ({
  meaning,
  row: [reason, { code, metadata: metadata === 'none' ? [] : metadata?.split(', '), retry: retry === 'yes' }],
}));

const codeName = (code: Code): string => (Code[code] ?? '').replace(/(?<=[a-z])(?=[A-Z])/g, '_').toUpperCase();

test('the comment of every value of ErrorReason tells the code, the metadata and the retry of its row', () => {
  const rows = Object.entries(reasons).map(([reason, row]) => [
    reason,
    { code: codeName(row.code), metadata: row.metadata, retry: 'retryMs' in row },
  ]);
  expect(comments.map(({ row }) => row)).toEqual(rows);
});

test('every value of ErrorReason has a row, and every row a value', () => {
  const names = ErrorReasonSchema.values.map(({ localName }) => localName);
  expect(names.filter((name) => name !== 'UNSPECIFIED')).toEqual(Object.keys(reasons));
});

test('no two values of ErrorReason mean the same', () => {
  const meanings = comments.map(({ meaning }) => meaning);
  expect(new Set(meanings).size).toBe(meanings.length);
});
