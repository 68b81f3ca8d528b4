import { InvalidArgumentError } from 'commander';

const sizeUnits: Readonly<Record<string, number>> = { '': 1, b: 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 };
const timeUnits: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  '': 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** `512m`, `2g`, `1048576`: bytes, in powers of 1024. */
export function parseSize(text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)\s*([bkmgt]?)(?:ib|b)?$/i.exec(text.trim()) ?? [];
  const factor = sizeUnits[(unit ?? '').toLowerCase()];
  const bytes = Math.round(Number(number) * (factor ?? Number.NaN));
  if (!Number.isSafeInteger(bytes) || bytes < 1) throw new InvalidArgumentError('Give a size such as 512m or 2g.');
  return bytes;
}

/** `90`, `90s`, `1.5m`, `250ms`, `2h`: milliseconds; a bare number is seconds. */
export function parseDuration(text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?$/i.exec(text.trim()) ?? [];
  const ms = Number(number) * (timeUnits[(unit ?? '').toLowerCase()] ?? Number.NaN);
  if (!Number.isFinite(ms) || ms <= 0) throw new InvalidArgumentError('Give a time such as 30s, 5m or 250ms.');
  return ms;
}

export function parseCpus(text: string): number {
  const cpus = Number(text);
  if (text.trim() === '' || !Number.isFinite(cpus) || cpus <= 0)
    throw new InvalidArgumentError('Give a number of cores such as 1.5.');
  return cpus;
}

export function parseCount(text: string): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(count) || count < 1)
    throw new InvalidArgumentError('Give a whole number above zero.');
  return count;
}

/** Collects `KEY=VALUE`; the value may be empty and may contain further equal signs. */
export function collectAssignment(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('Give NAME=VALUE.');
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

/** Collects the values of an option that may be given several times. */
export function collect(text: string, before: string[] = []): string[] {
  return [...before, text];
}
