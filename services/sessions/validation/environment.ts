import { checkBytes, checkCount, checkNoNul, invalid, overLimit, show } from './field.ts';

const nameShape = /^[A-Za-z_][A-Za-z0-9_]*$/;
const variables = 256;
const togetherBytes = 65_536;

export function checkEnv(field: string, env: Readonly<Record<string, string>>): void {
  const entries = Object.entries(env);
  checkCount(field, entries.length, variables);
  let bytes = 0;
  for (const [name, value] of entries) {
    if (!nameShape.test(name)) {
      throw invalid(field, `found the name ${show(name)}`, 'letters, digits and _ that do not begin with a digit');
    }
    bytes += Buffer.byteLength(name) + Buffer.byteLength(value) + 2;
    if (bytes > togetherBytes) throw overLimit(field, bytes, togetherBytes, 'bytes together');
    checkNoNul(`${field}.${name}`, value);
  }
}

const labels = 32;
const labelKeyShape = /^[A-Za-z0-9]([A-Za-z0-9_./-]{0,61}[A-Za-z0-9])?$/;
const labelValueBytes = 256;

export function checkLabels(field: string, given: Readonly<Record<string, string>>): void {
  const entries = Object.entries(given);
  checkCount(field, entries.length, labels);
  for (const [key, value] of entries) {
    if (!labelKeyShape.test(key)) {
      const expected = 'up to 63 letters, digits and _ . / - that begin and end with a letter or digit';
      throw invalid(field, `found the key ${show(key)}`, expected);
    }
    checkNoNul(`${field}.${key}`, value);
    checkBytes(`${field}.${key}`, value, labelValueBytes);
  }
}
