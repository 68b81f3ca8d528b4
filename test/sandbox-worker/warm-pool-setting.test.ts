import { describe, expect, test } from 'vitest';
import { warmKinds, warmPool } from '../../services/sandbox-worker/warm-pool-setting.ts';

const defaults = { cpus: 1, memoryBytes: 1024, diskBytes: 2048, pids: 512 };
const kinds = (text: string) => warmKinds(warmPool().parse(text), 'assay/base:1', defaults);

describe('ASSAY_WARM_POOL', () => {
  test.each(['0', '', 'base=0'])('%j keeps nothing ready', (text) => expect(kinds(text)).toEqual([]));

  test('names images, with limits of their own where they are given', () => {
    expect(kinds('base=2, python:3.12;cpus=1.5;memory=4096;pids=64=1')).toEqual([
      { image: 'assay/base:1', count: 2, limits: defaults },
      { image: 'python:3.12', count: 1, limits: { ...defaults, cpus: 1.5, memoryBytes: 4096, pids: 64 } },
    ]);
  });

  test.each(['2', 'base', 'base=x', 'base=-1', '=2', 'base;cpu=1=2', 'base;cpus=0=2', 'base=2,,x=1', '../x=1'])(
    '%j is refused with what was expected',
    (text) => expect(() => warmPool().parse(text)).toThrow('expected 0, or image=count'),
  );

  test('refuses more than a thousand together', () => {
    expect(() => warmPool().parse('base=999,other=2')).toThrow('at most 1000');
  });
});
