import { createHash, randomBytes } from 'node:crypto';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { createSpool, minKeptBytes, type Spool } from '../../../services/sandbox-worker/execution/spool.ts';
import { runDirectory } from '../../run.ts';

const directory = mkdtempSync(join(runDirectory(), 'spool-'));
afterAll(() => rmSync(directory, { recursive: true }));
let files = 0;
const path = () => join(directory, String(files++));
const always = (file: string) => () => file;
const mebibyte = 1_048_576;

function readAll(spool: Spool): { data: Buffer; gaps: [number, number][] } {
  const parts: Buffer[] = [];
  const gaps: [number, number][] = [];
  for (let at = 0; ; ) {
    const read = spool.read(at, 100_000);
    if (read.type === 'nothing') return { data: Buffer.concat(parts), gaps };
    if (read.type === 'gap') {
      gaps.push([read.from, read.to]);
      at = read.to;
    } else {
      parts.push(read.data);
      at += read.data.length;
    }
  }
}

function fill(spool: Spool, data: Buffer): void {
  for (let at = 0; at < data.length; at += 65_000) spool.write(at, data.subarray(at, at + 65_000));
}

describe('a spool', () => {
  test('gives back every byte below its cap', () => {
    const spool = createSpool(always(path()), minKeptBytes);
    const data = randomBytes(minKeptBytes);
    fill(spool, data);
    const read = readAll(spool);
    expect(read.gaps).toEqual([]);
    expect(read.data.equals(data)).toBe(true);
    spool.release();
  });

  test('keeps the head and the tail of what outgrows it and tells the gap between', () => {
    const spool = createSpool(always(path()), minKeptBytes);
    const data = randomBytes(minKeptBytes * 3 + 12_345);
    fill(spool, data);
    const half = minKeptBytes / 2;
    const read = readAll(spool);
    expect(read.gaps).toEqual([[half, data.length - half]]);
    const kept = Buffer.concat([data.subarray(0, half), data.subarray(data.length - half)]);
    expect(createHash('sha256').update(read.data).digest('hex')).toBe(createHash('sha256').update(kept).digest('hex'));
    spool.release();
  });

  test('takes the same bytes twice without harm', () => {
    const spool = createSpool(always(path()), minKeptBytes);
    const data = randomBytes(mebibyte);
    fill(spool, data);
    spool.write(500_000, data.subarray(500_000, 600_000));
    expect(readAll(spool).data.equals(data)).toBe(true);
    spool.release();
  });

  test('taken up by another process never gives bytes that a crash may have overwritten', () => {
    const file = path();
    const data = randomBytes(minKeptBytes * 2);
    const before = createSpool(() => file, minKeptBytes);
    fill(before, data);
    before.release();
    // The guest had heard of all but the last 700,000 bytes, which are on disk already.
    const sure = data.length - 700_000;
    const after = createSpool(() => file, minKeptBytes);
    after.recover(sure);
    const read = readAll(after);
    const [gap] = read.gaps;
    if (gap === undefined) throw new Error('expected a gap');
    const kept = Buffer.concat([data.subarray(0, gap[0]), data.subarray(gap[1], sure)]);
    expect(read.data.equals(kept)).toBe(true);
    after.write(sure, data.subarray(sure));
    const all = readAll(after);
    const [last] = all.gaps;
    expect(all.data.subarray(last?.[0] ?? 0).equals(data.subarray(last?.[1] ?? 0))).toBe(true);
    after.release();
  });

  test('refuses a guest that calls more stored than there is on disk', () => {
    const spool = createSpool(always(path()), minKeptBytes);
    expect(() => spool.recover(5)).toThrow('5 bytes of output called stored, found 0');
    spool.release();
  });

  test('that is given up tells one gap for all it had, and takes nothing of the disk', () => {
    const file = path();
    const spool = createSpool(() => file, minKeptBytes);
    const data = randomBytes(minKeptBytes * 2);
    fill(spool, data);
    const lost: [number, number][] = [];
    spool.trim({ head: 0, tail: 0 }, (from, to) => lost.push([from, to]));
    expect(lost).toEqual([[0, data.length]]);
    expect(readAll(spool)).toEqual({ data: Buffer.alloc(0), gaps: [[0, data.length]] });
    expect([spool.held, existsSync(file)]).toEqual([0, false]);
  });

  test.each([1, 4, 11])(
    'trimmed while it is written keeps its beginning and its end, and goes on (%i MiB before)',
    (size) => {
      const file = path();
      let held = 0;
      const grew = (bytes: number) => {
        held += bytes;
      };
      const spool = createSpool(() => file, minKeptBytes, { grew, full: () => false });
      const data = randomBytes(size * mebibyte + 3 * mebibyte);
      const before = size * mebibyte;
      fill(spool, data.subarray(0, before));
      const keep = { head: 100_000, tail: 500_000 };
      const lost = { from: 0, to: 0 };
      const losing = (from: number, to: number) => Object.assign(lost, { from, to });
      spool.trim(keep, losing);
      expect(lost).toEqual({ from: 100_000, to: before - 500_000 });
      expect(spool.held).toBe(Math.ceil(600_000 / 4_096) * 4_096);
      expect(statSync(file).blocks * 512).toBeLessThan(spool.held + 6 * 4_096);
      for (let at = before; at < data.length; at += 65_000) spool.write(at, data.subarray(at, at + 65_000));
      const read = readAll(spool);
      const [[from, to] = [0, 0], ...more] = read.gaps;
      expect([from, more]).toEqual([100_000, []]);
      // Below the cap nothing else is missing; above it the ring has moved on.
      expect(to).toBe(data.length <= minKeptBytes ? lost.to : Math.max(lost.to, data.length - minKeptBytes / 2));
      expect(read.data.equals(Buffer.concat([data.subarray(0, from), data.subarray(to)]))).toBe(true);
      expect([held, spool.held]).toEqual([spool.held, Math.ceil(read.data.length / 4_096) * 4_096]);
      spool.trim(keep, losing);
      expect(readAll(spool).gaps).toEqual([[100_000, data.length - 500_000]]);
      spool.release();
    },
  );

  test('that could not record a trim is whole, and leaves no half-made copy', () => {
    const file = path();
    const data = randomBytes(3 * mebibyte);
    const spool = createSpool(() => file, minKeptBytes);
    fill(spool, data);
    const descriptors = () => readdirSync('/proc/self/fd').length;
    const before = descriptors();
    const losing = () => {
      throw new Error('ENOSPC: no space left on device, write');
    };
    expect(() => spool.trim({ head: 1_000, tail: 1_000_000 }, losing)).toThrow('ENOSPC');
    expect([descriptors(), existsSync(`${file}.trimmed`)]).toEqual([before, false]);
    const read = readAll(spool);
    expect([read.gaps, read.data.equals(data)]).toEqual([[], true]);
    spool.release();
  });

  test('whose worker died between recording a trim and doing it reads as if it were done', () => {
    const file = path();
    const data = randomBytes(3 * mebibyte);
    const before = createSpool(() => file, minKeptBytes);
    fill(before, data);
    const lost: [number, number] = [0, 0];
    before.trim({ head: 1_000, tail: 1_000_000 }, (from, to) => {
      copyFileSync(file, `${file}.untouched`);
      lost.splice(0, 2, from, to);
    });
    before.release();
    for (const each of [file, `${file}.untouched`]) {
      const after = createSpool(() => each, minKeptBytes);
      after.forgo(...lost);
      after.recover(data.length);
      const read = readAll(after);
      expect(read.gaps).toEqual([lost]);
      expect(read.data.equals(Buffer.concat([data.subarray(0, lost[0]), data.subarray(lost[1])]))).toBe(true);
      after.release();
    }
  });

  test('on a full disk asks for room once, goes on if there is some, and says so if there is none', () => {
    let room = (): string => file;
    const file = path();
    const full = path();
    symlinkSync('/dev/full', full);
    const asked: boolean[] = [];
    const disk = {
      grew() {},
      full() {
        asked.push(true);
        spool.release();
        rmSync(full);
        symlinkSync(room(), full);
        return true;
      },
    };
    const spool = createSpool(() => full, minKeptBytes, disk);
    spool.write(0, Buffer.from('hello'));
    expect([asked.length, readAll(spool).data.toString()]).toEqual([1, 'hello']);
    spool.release();

    room = () => '/dev/full';
    rmSync(full);
    symlinkSync('/dev/full', full);
    expect(() => spool.write(5, Buffer.from('more'))).toThrow('ENOSPC');
    expect([asked.length, spool.total]).toEqual([2, 5]);
    spool.release();
  });
});
