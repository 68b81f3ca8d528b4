import { describe, expect, test } from 'vitest';
import { createRate } from '../../../services/sessions/auth/rate.ts';

describe('a rate', () => {
  test('lets so many through in a second, for each name', () => {
    const rate = createRate(2, () => 0);
    expect([rate.spend('a'), rate.spend('a'), rate.spend('a')]).toEqual([true, true, false]);
    expect(rate.spend('b')).toBe(true);
  });

  test('begins anew when the second is over', () => {
    let ms = 0;
    const rate = createRate(1, () => ms);
    expect([rate.spend('a'), rate.spend('a')]).toEqual([true, false]);
    ms = 999;
    expect(rate.spend('a')).toBe(false);
    ms = 1_000;
    expect(rate.spend('a')).toBe(true);
  });

  test('of nothing lets nobody through', () => {
    const rate = createRate(0, () => 0);
    expect([rate.spend('a'), rate.spend('a')]).toEqual([false, false]);
  });

  test('still counts a name after many others came', () => {
    const rate = createRate(1, () => 0);
    rate.spend('a');
    for (let other = 0; other < 20_000; other++) rate.spend(`other ${other}`);
    expect(rate.spend('a')).toBe(false);
  });
});
